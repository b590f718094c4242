/** Keeps the positions of follow, so that a program continues after a restart. A Map is one, for as long as it lives. */
export interface CursorStore {
  /** Returns the cursor under a key, and null or undefined if there is none. */
  get(key: string): Promise<string | null | undefined> | string | null | undefined;
  /** Resolves when the cursor is kept. */
  set(key: string, cursor: string): unknown;
}

/** Options of follow. */
export interface FollowOptions<K extends EventName> {
  /** The arguments of each event type, by its name. */
  arguments?: { [N in K]?: Events[N]['arguments'] };
  /** Where positions are kept; by default in memory. An error of the store ends follow. */
  cursors?: CursorStore;
  /** Leaves out occurrences that are older. */
  maxAgeMs?: number;
  /** Ends the iterator, which then returns. */
  signal?: AbortSignal;
  /** How long a stream may be silent before it counts as lost: more than the server's heartbeat interval. */
  idleMs?: number;
  /** Receives each loss: the server no longer has occurrences that should have come. follow waits for it. */
  onGap?: (gap: { name: K; cursor: string | null }) => Promise<void> | void;
  /** Receives each failure that follow recovers from, and when it tries again. */
  onRetry?: (retry: { name: K; error: unknown; delayMs: number }) => void;
}

/**
 * Follows event types over one client until the signal, across failures and restarts of the server. It opens a stream
 * for each type, or polls a type that has no push delivery, and continues each at its cursor.
 *
 * It saves the cursor of an occurrence when the program asks for the next one. A program that stops before that receives
 * the occurrence a second time when it starts; by poll, the whole page. It throws if a retry cannot help: the server
 * refuses the request or ends the subscription (the error has this as its cause), or the cursor store fails.
 *
 * A client over HTTP lasts. Pass a function that connects a new one if the transport ends with the server (stdio, or
 * HTTP with sessions), or if its token expires.
 */
export async function* follow<K extends EventName>(
  client: Client | (() => Promise<Client>),
  names: K | readonly K[],
  options: FollowOptions<K> = {},
): AsyncGenerator<OccurrenceOf<K>, void, undefined> {
  const all: readonly K[] = typeof names === 'string' ? [names] : (names as readonly K[]);
  if (all.length === 0) throw new Error('follow needs the name of an event type');
  const cursors = options.cursors ?? new Map<string, string>();
  const connection = new Connection(client);
  const end = new AbortController();
  const unlink = link(options.signal, end);
  const arrived = new Handover<Arrival<K>>(end.signal);
  const running = [...new Set(all)].map((name) =>
    followOne(connection, name, options, cursors, arrived, end.signal).catch((error: unknown) => arrived.fail(error)),
  );
  try {
    for (;;) {
      const next = await arrived.take();
      if (!next) return;
      const { name, key, batch, gap } = next;
      if (gap) await options.onGap?.({ name, cursor: batch.cursor });
      let left = batch.events.length;
      for (const event of batch.events) {
        yield event;
        if (--left > 0 && end.signal.aborted) return; // the program has not processed the others
      }
      if (batch.cursor !== null) await stored(key, () => cursors.set(key, batch.cursor as string));
    }
  } finally {
    end.abort();
    unlink();
    await Promise.all(running);
    await connection.end();
  }
}

/** A batch on its way to the program, with the key of its cursor. */
interface Arrival<K extends EventName> {
  name: K;
  key: string;
  batch: Batch<K>;
  gap: boolean;
}

/** Receives one event type until the signal. It throws errors that a retry cannot help. */
async function followOne<K extends EventName>(
  connection: Connection,
  name: K,
  options: FollowOptions<K>,
  cursors: CursorStore,
  arrived: Handover<Arrival<K>>,
  signal: AbortSignal,
): Promise<void> {
  const args = options.arguments?.[name] as Events[K]['arguments'] | undefined;
  const key = args && Object.keys(args).length > 0 ? `${name} ${canonical(args)}` : name;
  let cursor = (await stored(key, () => cursors.get(key))) ?? null;
  let failures = 0;
  let polls = false;
  let again = false; // a type without replay loses what happens between two streams
  let renewed = false; // the client was replaced because its token had expired
  const { maxAgeMs, idleMs } = options;
  while (!signal.aborted) {
    let client: Client | undefined;
    try {
      client = await connection.client();
      const receiving = {
        cursor,
        signal,
        ...(args && { arguments: args }),
        ...(maxAgeMs !== undefined && { maxAgeMs }),
      };
      const batches = polls ? poll(client, name, receiving) : stream(client, name, { ...receiving, ...(idleMs !== undefined && { idleMs }) });
      let first = true;
      for await (const batch of batches) {
        if (!first || batch.events.length > 0) failures = 0; // not the stream alone: one that ends at once is a failure
        const gap = batch.truncated || (first && again && batch.cursor === null);
        first = false;
        again = true;
        renewed = false;
        cursor = batch.cursor;
        await arrived.put({ name, key, batch, gap });
      }
    } catch (error) {
      if (signal.aborted) return;
      if (!polls && withoutPush(error)) {
        polls = true;
        continue;
      }
      if (error instanceof StreamError && error.reason === 'behind') continue;
      if (client && !renewed && unauthorized(error) && (renewed = await connection.replace(client))) continue;
      if (!passing(error)) throw new Error(`${name} cannot be followed: ${String(error)}`, { cause: error });
      if (client && broken(error) && (failures > 0 || !client.transport)) await connection.replace(client);
      const delayMs = between(failures++);
      options.onRetry?.({ name, error, delayMs });
      await pause(delayMs, signal);
    }
  }
}

/** Waits between half and all of 1 s, doubled with each failure up to 1 min. */
function between(failures: number): number {
  return Math.min(1000 * 2 ** failures, 60_000) * (0.5 + Math.random() / 2);
}

/** Calls a cursor store, and names the key in its error. */
async function stored<T>(key: string, call: () => Promise<T> | T): Promise<T> {
  try {
    return await call();
  } catch (cause) {
    throw new Error(`the cursor store failed at ${key}: ${String(cause)}`, { cause });
  }
}

/** Codes of JSON-RPC errors, in both drafts of the extension. */
const notFound = [-32011, -32023];
const exhausted = [-32013, -32025];
const unsupported = [-32014, -32026];
const internal = -32603;

/** Reports whether the server does not deliver the event type by push. */
function withoutPush(error: unknown): boolean {
  const { code, data } = error as { code?: unknown; data?: { feature?: unknown } | null };
  return !(error instanceof StreamError) && unsupported.includes(code as number) && data?.feature === 'deliveryMode';
}

/** Reports whether a retry can help: after a failure of the connection or inside the server, but not after a refusal. */
function passing(error: unknown): boolean {
  if (error instanceof NotConnected) return false;
  const { code, status } = error as { code?: unknown; status?: unknown };
  if (error instanceof StreamError) {
    // The next request tells whether the type is really gone.
    return error.reason !== 'terminated' || [...notFound, ...unsupported].includes(code as number);
  }
  if (typeof code === 'number') return code === internal || exhausted.includes(code);
  if (typeof status === 'number') return status >= 500 || [404, 408, 425, 429].includes(status);
  return !unauthorized(error);
}

/** Reports whether the server does not accept the token; a function that connects may have a newer one. */
function unauthorized(error: unknown): boolean {
  const { status, name } = error as { status?: unknown; name?: unknown };
  return status === 401 || name === 'UnauthorizedError';
}

/** Reports whether the connection failed, which may need a new client; an answer of the server shows that it has not. */
function broken(error: unknown): boolean {
  return error instanceof StreamError ? error.reason === 'lost' : typeof (error as { code?: unknown }).code !== 'number';
}

/** The caller's client has ended, which a retry cannot help. */
class NotConnected extends Error {}

/** The client of follow: one that the caller has, or one after the other that a function connects. */
class Connection {
  private current: Promise<Client> | undefined;
  private readonly source: Client | (() => Promise<Client>);

  constructor(source: Client | (() => Promise<Client>)) {
    this.source = source;
  }

  async client(): Promise<Client> {
    if (typeof this.source !== 'function') {
      if (!this.source.transport) throw new NotConnected('the client is not connected; give follow a function that connects one');
      return this.source;
    }
    const connecting = (this.current ??= this.source());
    connecting.catch(() => {
      if (this.current === connecting) this.current = undefined;
    });
    return connecting;
  }

  /** Closes a client of the function, so that the next call connects; false if the client is the caller's. */
  async replace(client: Client): Promise<boolean> {
    if (typeof this.source !== 'function') return false;
    if ((await this.current?.catch(() => undefined)) === client) {
      this.current = undefined;
      await client.close().catch(() => {});
    }
    return true;
  }

  async end(): Promise<void> {
    const client = await this.current?.catch(() => undefined);
    await client?.close().catch(() => {});
  }
}

/** Hands values from several producers to one consumer, each when it is asked for. */
class Handover<T> {
  private readonly waiting: { value: T; taken: () => void }[] = [];
  private failed: { error: unknown } | undefined;
  private readonly signal: AbortSignal;
  private wake = () => {};

  constructor(signal: AbortSignal) {
    this.signal = signal;
    signal.addEventListener('abort', () => {
      for (const { taken } of this.waiting) taken();
      this.wake();
    });
  }

  /** Resolves when the value is taken, or on the signal. */
  put(value: T): Promise<void> {
    return new Promise((taken) => {
      if (this.signal.aborted) taken();
      else this.waiting.push({ value, taken });
      this.wake();
    });
  }

  fail(error: unknown): void {
    this.failed ??= { error };
    this.wake();
  }

  /** Returns undefined on the signal. */
  async take(): Promise<T | undefined> {
    for (;;) {
      if (this.signal.aborted) return undefined;
      if (this.failed) throw this.failed.error;
      const next = this.waiting.shift();
      if (next) {
        next.taken();
        return next.value;
      }
      await new Promise<void>((resolve) => (this.wake = resolve));
    }
  }
}

/** Writes a value as JSON with sorted members, so that equal values have one text. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_, v: unknown) =>
    v && typeof v === 'object' && !Array.isArray(v) ? Object.fromEntries(Object.entries(v).sort(([a], [b]) => (a < b ? -1 : 1))) : v,
  );
}
