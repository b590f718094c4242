/* eslint-disable @typescript-eslint/no-unused-vars -- much of it is there for its type */
// What narrows, and what must not compile: this file is compiled beside the TypeScript of examples/schemas/incidents.yaml
// as ./incidents, and of the golden cases unions, objects and typescript, and never run.
import type { Events, EventName, IncidentUpdatedPayload, Occurrence, Severity, UpdateOrUnknown } from './incidents/events.js';
import { eventNames, fingerprints } from './incidents/events.js';
import type { ConfigChangedArguments, ConfigChangedPayloadNothing, Events as ObjectEvents } from './objects/events.js';
import type { Events as OpenEvents } from './openenums/events.js';
import type { Step } from './typescript/events.js';
import type { MethodOrUnknown, Numbered } from './unions/events.js';
import { follow, poll, stream } from './incidents/client.js';
import { receiver } from './incidents/webhook.js';
import { createEventWebhook, subscribe } from './incidents/ai-sdk.js';
import { standard, validators } from './incidents/schemas.js';

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
function same<A, B>(...proof: Same<A, B> extends true ? [] : ['these types differ']): void {
  void proof;
}

export function narrows(event: Occurrence): string {
  switch (event.name) {
    case 'incident.created':
      same<typeof event.data, Events['incident.created']['payload']>();
      same<typeof event.data.severity, Severity>();
      // @ts-expect-error: it is a member of another event type
      void event.data.update;
      return event.data.incidentId;
    case 'incident.updated':
      return update(event.data);
    case 'incident.opened':
    case 'incident.digest':
      return event.eventId;
    default:
      same<typeof event, never>();
      return event;
  }
}

function update({ update }: IncidentUpdatedPayload): string {
  switch (update.kind) {
    case 'StatusChanged':
      return update.to;
    case 'Reassigned':
      // @ts-expect-error: nobody may be assigned
      void update.assignee.id;
      return update.assignee?.id ?? 'nobody';
    case 'NoteAdded':
      return update.noteId;
  }
}

export function unknownVariant(u: UpdateOrUnknown): unknown {
  if (u.kind === 'Reassigned') return u.assignee;
  if (u.kind === 'StatusChanged' || u.kind === 'NoteAdded') return u.kind;
  // @ts-expect-error: only listed variants have it typed
  const note: string = u.noteId;
  return note;
}

export function numbered(n: Numbered): string | undefined {
  return n.v === 1 ? n.a : n.b;
}

export function method(m: MethodOrUnknown): string | undefined {
  return m.kind === 'card' ? m.number : m.kind === 'bank' ? m.iban : undefined;
}

// An event type without arguments takes none, and an object without members has none.
export const none: ObjectEvents['config.changed']['arguments'] = {};
// @ts-expect-error: the event type takes no arguments
export const nonsense: ConfigChangedArguments = { nonsense: 1 };
export const nothing: ConfigChangedPayloadNothing = {};
// @ts-expect-error: the object has no members
export const something: ConfigChangedPayloadNothing = { nonsense: 1 };

// A variant without members has its tag.
export const begun: Step[] = [{ kind: 'Begun' }, { kind: 'Ended', by: 'me' }];

// An enum is open, and not everything.
export const later: Severity = 'P9';
// @ts-expect-error: a number is no severity
export const wrong: Severity = 9;

// In arguments it is closed: the server refuses another value.
export const listed: Events['incident.created']['arguments'] = { severity: 'P1' };
// @ts-expect-error: the enum does not list it
export const unlisted: Events['incident.created']['arguments'] = { severity: 'P9' };
// An enum whose schema allows any other value is open there too.
export const free: OpenEvents['sample.taken']['arguments'] = { five: 6, word: 'b' };

same<EventName, (typeof eventNames)[number]>();
same<EventName, keyof typeof fingerprints>();
// @ts-expect-error: an optional member is absent, not undefined
export const absent: Events['incident.created']['arguments'] = { severity: undefined };
// @ts-expect-error: there is no such argument
export const misspelt: Events['incident.created']['arguments'] = { sevrity: 'P1' };
// @ts-expect-error: a required member is missing
export const missing: Events['incident.created']['payload'] = { incidentId: 'i', severity: 'P1' };

export async function follows(client: Parameters<typeof poll>[0]): Promise<void> {
  for await (const batch of poll(client, 'incident.digest')) {
    same<(typeof batch.events)[number]['data']['oldest'], string | null>();
  }
  for await (const event of follow(client, ['incident.created', 'incident.updated'], { arguments: { 'incident.created': { severity: 'P1' } } })) {
    same<typeof event.name, 'incident.created' | 'incident.updated'>();
    if (event.name === 'incident.updated') update(event.data);
  }
  for await (const event of follow(async () => client, 'incident.digest')) same<typeof event.name, 'incident.digest'>();
  // @ts-expect-error: these are arguments of another event type
  follow(client, 'incident.created', { arguments: { 'incident.updated': {} } });
  // @ts-expect-error: an enum is closed in arguments
  follow(client, 'incident.created', { arguments: { 'incident.created': { severity: 'P9' } } });
  // @ts-expect-error: no event type is called so
  follow(client, ['incident.created', 'incident.deleted']);
  // @ts-expect-error: no event type is called so
  stream(client, 'incident.deleted');
  // @ts-expect-error: it takes no such argument
  stream(client, 'incident.created', { arguments: { incidentId: 'i' } });
}

export async function subscribes(events: Parameters<typeof subscribe>[0]): Promise<void> {
  const delivery = { mode: 'webhook', url: 'https://example.com/' } as const;
  await subscribe(events, { name: 'incident.created', arguments: { severity: 'P1' }, delivery });
  // @ts-expect-error: an enum is closed in arguments
  await subscribe(events, { name: 'incident.created', arguments: { severity: 'P9' }, delivery });
  // @ts-expect-error: a severity is a string
  await subscribe(events, { name: 'incident.created', arguments: { severity: 1 }, delivery });
}

receiver({
  secrets: () => ['whsec_'],
  onEvent: async (event, delivery) => {
    same<typeof event, Occurrence>();
    same<typeof delivery.subscriptionId, string | null>();
  },
});

export function handler(store: Parameters<typeof createEventWebhook>[0]['store']): (request: Request) => Promise<Response> {
  return createEventWebhook({ store, onEvent: async ({ event }) => void narrows(event) });
}

const checked = standard('incident.created', 'payload', () => () => []);
same<NonNullable<(typeof checked)['~standard']['types']>['output'], Events['incident.created']['payload']>();

same<ReturnType<(typeof validators)>['incident.created']['payload'], typeof checked>();
