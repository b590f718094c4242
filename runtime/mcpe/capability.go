package mcpe

import (
	"cmp"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpe/cron"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpe/mcpewire"
)

// capabilities returns the capability object, which contains only enabled features (MCPE-CAP-1).
func (a *Adapter) capabilities(info *mcp.Implementation) *mcpewire.Capabilities {
	channels := a.o.channels()
	name, version := a.o.Name, a.o.Version
	if info != nil {
		name = cmp.Or(name, info.Name)
		version = cmp.Or(version, info.Version)
	}
	c := &mcpewire.Capabilities{
		ProtocolVersion: wire.MCPEVersion, ProtocolName: wire.MCPEName,
		ServerInfo: mcpewire.ServerInfo{Name: name, Version: version},
		Subscriptions: mcpewire.SubscriptionLimits{MaxActive: a.o.MaxActive, MaxFiltersPerSubscription: a.o.MaxFilters,
			SupportsPause: !a.o.WithoutPause, SupportsExpiration: !a.o.WithoutExpiration, SupportsBatching: !a.o.WithoutCron || !a.o.WithoutScheduled},
		Filters:  mcpewire.FilterCapabilities{SupportsWildcardTypes: true, SupportsTagFiltering: true, SupportsPriorityFiltering: true},
		Delivery: mcpewire.DeliveryCapabilities{SupportedChannels: channels, SupportedPriorities: slices.Clone(priorities), SupportsMultiChannel: len(channels) > 1},
	}
	if !a.o.WithoutCron || !a.o.WithoutScheduled {
		c.Scheduling = &mcpewire.SchedulingCapability{CronEnabled: !a.o.WithoutCron, ScheduledEnabled: !a.o.WithoutScheduled, MaxScheduledPerClient: a.o.MaxActive}
		if !a.o.WithoutCron {
			c.Scheduling.CronPresets = slices.Clone(cron.Presets)
		}
	}
	return c
}
