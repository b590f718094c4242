package mcpe

import (
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/mcpe/cron"
	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
)

// capabilities is the capability object: what is switched on and nothing else (MCPE-CAP-1).
func (a *Adapter) capabilities(info *mcp.Implementation) *wire.MCPECapabilities {
	channels := a.o.channels()
	name, version := a.o.Name, a.o.Version
	if info != nil {
		if name == "" {
			name = info.Name
		}
		if version == "" {
			version = info.Version
		}
	}
	c := &wire.MCPECapabilities{
		ProtocolVersion: wire.MCPEVersion, ProtocolName: wire.MCPEName,
		ServerInfo: wire.MCPEServerInfo{Name: name, Version: version},
		Subscriptions: wire.MCPESubscriptionLimits{MaxActive: a.o.MaxActive, MaxFiltersPerSubscription: a.o.MaxFilters,
			SupportsPause: !a.o.WithoutPause, SupportsExpiration: !a.o.WithoutExpiration, SupportsBatching: !a.o.WithoutCron || !a.o.WithoutScheduled},
		Filters:  wire.MCPEFilterCapabilities{SupportsWildcardTypes: true, SupportsTagFiltering: true, SupportsPriorityFiltering: true},
		Delivery: wire.MCPEDeliveryCapabilities{SupportedChannels: channels, SupportedPriorities: slices.Clone(priorities), SupportsMultiChannel: len(channels) > 1},
	}
	if !a.o.WithoutCron || !a.o.WithoutScheduled {
		c.Scheduling = &wire.MCPESchedulingCapability{CronEnabled: !a.o.WithoutCron, ScheduledEnabled: !a.o.WithoutScheduled, MaxScheduledPerClient: a.o.MaxActive}
		if !a.o.WithoutCron {
			c.Scheduling.CronPresets = slices.Clone(cron.Presets)
		}
	}
	return c
}
