
import type { Client } from '@modelcontextprotocol/client';
import type { EventName, Events, Occurrence } from './events.js';

/** An occurrence of one event type. */
export type OccurrenceOf<K extends EventName> = Extract<Occurrence, { name: K }>;

/** What events/list says about one event type. */
export interface Description {
  name: string;
  description: string;
  delivery: ('poll' | 'push' | 'webhook')[];
  inputSchema: unknown;
  payloadSchema: unknown;
  _meta?: Record<string, unknown>;
}

/** Which occurrences, and from where on. */
export interface Follow<K extends EventName> {
  arguments?: Events[K]['arguments'];
  /** Where to go on: the cursor of the last batch that was dealt with; null, or none, means from now on. */
  cursor?: string | null;
  /** How old occurrences may be. */
  maxAgeMs?: number;
  /** Ends it: the iterator returns. */
  signal?: AbortSignal;
}

/** What came at once. Keep the cursor once the events are dealt with: whoever begins there misses nothing. */
export interface Batch<K extends EventName> {
  events: OccurrenceOf<K>[];
  cursor: string | null;
  /** Occurrences before these are lost: the server has them no longer. */
  truncated: boolean;
}

/** The event types that the server offers. */
export async function list(client: Client): Promise<Description[]> {
  const all: Description[] = [];
  let cursor: string | undefined;
  do {
    const page = await client.request(
      { method: 'events/list', params: cursor === undefined ? {} : { cursor } },
      as<{ events: Description[]; nextCursor?: string }>(),
    );
    all.push(...page.events);
    cursor = page.nextCursor;
  } while (cursor !== undefined);
  return all;
}

interface PollResult {
  events: unknown[];
  cursor: string | null;
  truncated: boolean;
  hasMore: boolean;
  nextPollMs: number;
}

/**
 * Occurrences of one event type by polling. waitMs is how long the server may hold a poll back until there is one; 0
 * asks at once, again and again at the server's pace. A failed request ends it with the error; begin again at the
 * last cursor.
 */
export async function* poll<K extends EventName>(
  client: Client,
  name: K,
  options: Follow<K> & { waitMs?: number; maxEvents?: number } = {},
): AsyncGenerator<Batch<K>, void, undefined> {
  const { signal, waitMs = 20_000, maxEvents } = options;
  let cursor = options.cursor ?? null;
  while (!signal?.aborted) {
    let got: PollResult;
    try {
      got = await client.request(
        { method: 'events/poll', params: { ...following(name, options, cursor), ...(maxEvents === undefined ? {} : { maxEvents }), ...(waitMs > 0 ? { timeoutMs: waitMs } : {}) } },
        as<PollResult>(),
        { timeout: waitMs + 60_000, ...(signal && { signal }) },
      );
    } catch (error) {
      if (signal?.aborted) return;
      throw error;
    }
    const moved = got.cursor !== cursor;
    cursor = got.cursor;
    if (moved || got.truncated || got.events.length > 0) {
      yield { events: got.events as OccurrenceOf<K>[], cursor, truncated: got.truncated };
    }
    if (!got.hasMore) await pause(got.nextPollMs, signal);
  }
}

const streaming = new WeakSet<Client>();

/**
 * Occurrences of one event type as they happen. A client has one stream at a time: the SDK does not tell which
 * request a notification belongs to. It returns when the server ends the stream, or on the signal. It fails when the
 * connection does, which shows by idleMs without a heartbeat: more than the server's interval. Begin
 * again at the last cursor. onError is told of errors that do not end it.
 */
export async function* stream<K extends EventName>(
  client: Client,
  name: K,
  options: Follow<K> & { idleMs?: number; onError?: (error: Error) => void } = {},
): AsyncGenerator<Batch<K>, void, undefined> {
  if (streaming.has(client)) throw new Error('the client has a stream; make another client for another stream');
  streaming.add(client);
  const end = new AbortController();
  const stop = () => end.abort();
  options.signal?.addEventListener('abort', stop);
  if (options.signal?.aborted) stop();
  const queue: Batch<K>[] = [];
  let wake = () => {};
  let failed: { error: unknown } | undefined;
  let over = false;
  let cursor = options.cursor ?? null;
  const push = (batch: Batch<K>) => {
    queue.push(batch);
    wake();
  };
  const fail = (error: unknown) => {
    failed ??= { error };
    wake();
  };
  const { idleMs = 90_000 } = options;
  const silent = () => fail(new Error(`${name}: nothing has come for ${idleMs} ms`));
  let timer = setTimeout(silent, idleMs);
  const on = <P>(method: string, handle: (params: P) => void) =>
    client.setNotificationHandler(`notifications/events/${method}`, { params: as<P>() }, (params) => {
      clearTimeout(timer);
      timer = setTimeout(silent, idleMs);
      handle(params);
    });
  on<{ cursor: string | null; truncated: boolean }>('active', (p) => {
    cursor = p.cursor;
    push({ events: [], cursor, truncated: p.truncated });
  });
  on<OccurrenceOf<K>>('event', (event) => {
    cursor = event.cursor ?? cursor;
    push({ events: [event], cursor, truncated: false });
  });
  on<{ cursor: string | null }>('heartbeat', (p) => {
    if (p.cursor === cursor) return;
    cursor = p.cursor;
    push({ events: [], cursor, truncated: false });
  });
  const says = (p: { error: { code: number; message: string } }) => Object.assign(new Error(p.error.message), { code: p.error.code });
  on('error', (p: Parameters<typeof says>[0]) => options.onError?.(says(p)));
  on('terminated', (p: Parameters<typeof says>[0]) => fail(says(p)));
  const request = client
    .request({ method: 'events/stream', params: following(name, options, cursor) }, as<unknown>(), { signal: end.signal, timeout: 2 ** 31 - 1 })
    .catch((error: unknown) => {
      if (!end.signal.aborted) fail(error);
    })
    .finally(() => {
      over = true;
      wake();
    });
  try {
    for (;;) {
      const batch = queue.shift();
      if (batch) yield batch;
      else if (failed) throw failed.error;
      else if (over) return;
      else await new Promise<void>((resolve) => (wake = resolve));
    }
  } finally {
    stop();
    clearTimeout(timer);
    options.signal?.removeEventListener('abort', stop);
    await request;
    for (const method of ['active', 'event', 'heartbeat', 'error', 'terminated']) {
      client.removeNotificationHandler(`notifications/events/${method}`);
    }
    streaming.delete(client);
  }
}

function following<K extends EventName>(name: K, options: Follow<K>, cursor: string | null): Record<string, unknown> {
  return {
    name,
    arguments: options.arguments ?? {},
    cursor,
    ...(options.maxAgeMs === undefined ? {} : { maxAgeMs: options.maxAgeMs }),
  };
}

/** A schema that takes what the server says for what it promises; schemas.ts has those that look. */
function as<T>() {
  return {
    '~standard': {
      version: 1 as const,
      vendor: 'mcpe-gen',
      validate: (value: unknown) => ({ value: value as T }),
      types: undefined as { input: unknown; output: T } | undefined,
    },
  };
}

function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal?.addEventListener('abort', done);
    if (signal?.aborted) done();
  });
}
