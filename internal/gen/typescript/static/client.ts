
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

/** Options of poll and stream: which occurrences, and from which position. */
export interface ReceiveOptions<K extends EventName> {
  arguments?: Events[K]['arguments'];
  /** The position to continue at: the cursor of the last processed batch. Without it only new occurrences come. */
  cursor?: string | null;
  /** Leaves out occurrences that are older. */
  maxAgeMs?: number;
  /** Ends the iterator, which then returns. */
  signal?: AbortSignal;
}

/** Occurrences that came together. Save the cursor after you have processed them: a program that continues there misses nothing. */
export interface Batch<K extends EventName> {
  events: OccurrenceOf<K>[];
  cursor: string | null;
  /** Occurrences before these are lost: the server no longer has them. */
  truncated: boolean;
}

/** Says why a stream ended without a signal of the caller. */
export class StreamError extends Error {
  override readonly name = 'StreamError';
  /**
   * closed: the server ended the stream, as it does when it shuts down. lost: the connection failed or fell silent.
   * behind: more than 1,000 batches waited for the program. terminated: the server ended the subscription; code and
   * data say why. After the first three a new stream continues at the last cursor.
   */
  readonly reason: 'closed' | 'lost' | 'behind' | 'terminated';
  readonly code: number | undefined;
  readonly data: unknown;

  constructor(reason: StreamError['reason'], message: string, why?: { code: number; data?: unknown }) {
    super(message);
    this.reason = reason;
    this.code = why?.code;
    this.data = why?.data;
  }
}

/** Returns the event types that the server offers. */
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
 * Polls one event type. waitMs is how long the server may hold a poll until there is an occurrence; with 0 it answers
 * at once, and the next poll follows at the server's pace. A failed request ends the iterator with the error; start
 * again at the last cursor.
 */
export async function* poll<K extends EventName>(
  client: Client,
  name: K,
  options: ReceiveOptions<K> & { waitMs?: number; maxEvents?: number } = {},
): AsyncGenerator<Batch<K>, void, undefined> {
  const { signal, waitMs = 20_000, maxEvents } = options;
  let cursor = options.cursor ?? null;
  while (!signal?.aborted) {
    let got: PollResult;
    try {
      const params = { ...following(name, options, cursor), ...(maxEvents !== undefined && { maxEvents }), ...(waitMs > 0 && { timeoutMs: waitMs }) };
      got = await send<PollResult>(client, 'events/poll', params, waitMs + 60_000, signal).result;
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

const maxWaiting = 1000;

/**
 * Streams one event type. A client carries any number of streams. It returns on the signal only: if the server or the
 * connection ends the stream, it throws a StreamError; start again at the last cursor, as follow does. idleMs is how
 * long the stream may be silent, more than the server's heartbeat interval. onError receives errors that do not end it.
 */
export async function* stream<K extends EventName>(
  client: Client,
  name: K,
  options: ReceiveOptions<K> & { idleMs?: number; onError?: (error: Error) => void } = {},
): AsyncGenerator<Batch<K>, void, undefined> {
  const { signal, idleMs = 60_000 } = options;
  if (signal?.aborted) return;
  const end = new AbortController();
  const unlink = link(signal, end);
  const inbox = new Inbox(name, options.cursor ?? null, idleMs, options.onError, end);
  const leave = join(client, inbox);
  let settled: Promise<void> | undefined;
  try {
    const request = send(client, 'events/stream', following(name, options, options.cursor ?? null), 2 ** 31 - 1, end.signal);
    inbox.id = request.id;
    settled = request.result.then(
      () => soon(() => inbox.fail(new StreamError('closed', `${name}: the server ended the stream`))),
      (error: unknown) => soon(() => inbox.fail(error)),
    );
    for (;;) {
      await inbox.filled();
      if (signal?.aborted) return;
      yield inbox.take();
    }
  } finally {
    end.abort();
    unlink();
    leave();
    inbox.stop();
    await settled;
  }
}

type Notice = 'active' | 'event' | 'heartbeat' | 'error' | 'terminated';
const notices: readonly Notice[] = ['active', 'event', 'heartbeat', 'error', 'terminated'];

/** What the params of notifications have in common. */
interface NoticeParams {
  cursor?: string | null;
  truncated?: boolean;
  error?: { code: number; message: string; data?: unknown };
  _meta?: Record<string, unknown>;
}

/** The stream of one event type: what came and waits for the program. */
class Inbox<K extends EventName> {
  /** The id of the request, undefined if the SDK does not show it. */
  id: string | number | undefined;
  private readonly waiting: Batch<K>[] = [];
  private failed: { error: unknown } | undefined;
  private wake = () => {};
  private timer: ReturnType<typeof setTimeout> | undefined;
  private readonly name: K;
  private cursor: string | null;
  private readonly idleMs: number;
  private readonly onError: ((error: Error) => void) | undefined;
  private readonly end: AbortController;

  constructor(name: K, cursor: string | null, idleMs: number, onError: ((error: Error) => void) | undefined, end: AbortController) {
    this.name = name;
    this.cursor = cursor;
    this.idleMs = idleMs;
    this.onError = onError;
    this.end = end;
    this.expect();
  }

  receive(method: Notice, params: NoticeParams): void {
    this.expect();
    switch (method) {
      case 'active':
        this.cursor = params.cursor ?? null;
        return this.push([], params.truncated === true);
      case 'event':
        this.cursor = params.cursor ?? this.cursor;
        return this.push([params as unknown as OccurrenceOf<K>], false);
      case 'heartbeat':
        if ((params.cursor ?? null) === this.cursor) return;
        this.cursor = params.cursor ?? null;
        return this.push([], false);
      case 'error':
        return this.onError?.(Object.assign(new Error(params.error?.message), { code: params.error?.code }));
      case 'terminated':
        return this.fail(new StreamError('terminated', `${this.name}: the server ended the subscription: ${params.error?.message}`, params.error));
    }
  }

  fail(error: unknown): void {
    this.failed ??= { error };
    this.wake();
  }

  /** Resolves when a batch waits or the stream has failed. */
  async filled(): Promise<void> {
    if (this.waiting.length === 0 && !this.failed) await new Promise<void>((resolve) => (this.wake = resolve));
  }

  /** Returns the next batch; after the last it throws the failure. */
  take(): Batch<K> {
    const next = this.waiting.shift();
    if (!next) throw this.failed?.error;
    return next;
  }

  stop(): void {
    clearTimeout(this.timer);
  }

  private push(events: OccurrenceOf<K>[], truncated: boolean): void {
    if (this.failed) return;
    this.waiting.push({ events, cursor: this.cursor, truncated });
    this.wake();
    if (this.waiting.length <= maxWaiting) return;
    this.fail(new StreamError('behind', `${this.name}: ${maxWaiting} batches wait for the program`));
    this.end.abort();
  }

  /** Fails the stream unless something comes in time. */
  private expect(): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.fail(new StreamError('lost', `${this.name}: nothing came for ${this.idleMs} ms`)), this.idleMs);
  }
}

interface Receiver {
  id: string | number | undefined;
  receive(method: Notice, params: NoticeParams): void;
}

const receivers = new WeakMap<Client, Set<Receiver>>();

/** Hands a stream the notifications that name its request; the function that it returns ends that. */
function join(client: Client, receiver: Receiver): () => void {
  let all = receivers.get(client);
  if (!all) receivers.set(client, (all = new Set()));
  const members = all;
  const owner = (params: NoticeParams) => {
    const id = params._meta?.['io.modelcontextprotocol/subscriptionId'];
    for (const m of members) if (m.id === id || ((id === undefined || m.id === undefined) && members.size === 1)) return m;
    return undefined;
  };
  if (members.size === 0) {
    for (const method of notices) {
      client.setNotificationHandler(`notifications/events/${method}`, { params: as<NoticeParams>() }, (params) => owner(params)?.receive(method, params));
    }
  }
  members.add(receiver);
  return () => {
    members.delete(receiver);
    if (members.size === 0) for (const method of notices) client.removeNotificationHandler(`notifications/events/${method}`);
  };
}

/**
 * Sends a request whose result fails as soon as its connection does. The SDK shows neither the id of a request nor that
 * the server closed its response without an answer; its transport does, so the message is taken up on its way there.
 */
function send<T>(
  client: Client,
  method: string,
  params: Record<string, unknown>,
  timeout: number,
  signal?: AbortSignal,
): { id: string | number | undefined; result: Promise<T> } {
  const transport = client.transport;
  if (!transport) throw new StreamError('lost', `${method}: the client is not connected`);
  const end = new AbortController();
  const unlink = link(signal, end);
  let id: string | number | undefined;
  let lose = () => {};
  const lost = new Promise<never>((_, reject) => {
    lose = () => void soon(() => reject(new StreamError('lost', `${method}: the connection ended without an answer`)));
  });
  const original = transport.send;
  let answer: Promise<T>;
  transport.send = (message, options) => {
    if ('id' in message) id = message.id;
    return original.call(transport, message, { ...options, onRequestStreamEnd: lose });
  };
  try {
    answer = client.request({ method, params }, as<T>(), { signal: end.signal, timeout });
  } finally {
    transport.send = original;
  }
  const result = Promise.race([answer, lost]).finally(() => {
    end.abort(); // of a request whose connection ended the client would wait for the answer
    unlink();
  });
  return { id, result };
}

function following<K extends EventName>(name: K, options: ReceiveOptions<K>, cursor: string | null): Record<string, unknown> {
  return { name, arguments: options.arguments ?? {}, cursor, ...(options.maxAgeMs !== undefined && { maxAgeMs: options.maxAgeMs }) };
}

/** A schema that takes the server at its word; schemas.ts has schemas that check. */
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

/** Aborts a controller with a signal, until the function that it returns is called. */
function link(signal: AbortSignal | undefined, controller: AbortController): () => void {
  const abort = () => controller.abort();
  signal?.addEventListener('abort', abort);
  if (signal?.aborted) abort();
  return () => signal?.removeEventListener('abort', abort);
}

/** Calls a function after the notifications that came before, which the SDK handles in later microtasks. */
function soon(call: () => void): Promise<void> {
  return new Promise((resolve) =>
    setTimeout(() => {
      call();
      resolve();
    }),
  );
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

