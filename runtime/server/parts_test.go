package server

import (
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/cluster"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/durable"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/subscriber"
)

func (s *Server) live() *subscriber.Subscriptions { return s.parts.(*durable.Service).Webhooks }

func (s *Server) processes() cluster.Processes { return s.parts.(*durable.Service).Processes }

// anyWebhook is a filter that matches every webhook subscription.
func anyWebhook(*subscriber.Live) bool { return true }
