
import {
  experimental_createMCPEventWebhook,
  type Experimental_MCPEvents,
  type Experimental_MCPEventSubscriptionInfo,
  type Experimental_MCPEventWebhookOptions,
  type Experimental_SubscribeEventOptions,
  type Experimental_SubscribeEventResult,
} from '@ai-sdk/mcp';
import { eventNames, type EventName, type Events, type Occurrence } from './events.js';

/** What subscribe takes: the SDK's options with the name and arguments of one event type. */
export type SubscribeOptions<K extends EventName> = Omit<Experimental_SubscribeEventOptions, 'name' | 'arguments'> & {
  name: K;
  arguments: Events[K]['arguments'];
};

/** Subscribes by webhook: client.experimental_events.subscribe, with the arguments checked by the compiler. */
export function subscribe<K extends EventName>(
  events: Pick<Experimental_MCPEvents, 'subscribe'>,
  options: SubscribeOptions<K>,
): Promise<Experimental_SubscribeEventResult> {
  return events.subscribe(options as unknown as Experimental_SubscribeEventOptions);
}

/** What the handler takes: the SDK's options with typed occurrences. */
export type EventWebhookOptions = Omit<Experimental_MCPEventWebhookOptions, 'onEvent'> & {
  onEvent: (args: { subscription: Experimental_MCPEventSubscriptionInfo; event: Occurrence }) => Promise<void>;
};

/** The SDK's handler of webhooks, for the event types of this package; any other is an error, which the server retries. */
export function createEventWebhook({ onEvent, ...options }: EventWebhookOptions): (request: Request) => Promise<Response> {
  const known: readonly string[] = eventNames;
  return experimental_createMCPEventWebhook({
    ...options,
    onEvent: async ({ subscription, event }) => {
      if (!known.includes(event.name)) throw new Error(`no event type is called ${event.name}`);
      await onEvent({ subscription, event: event as unknown as Occurrence });
    },
  });
}
