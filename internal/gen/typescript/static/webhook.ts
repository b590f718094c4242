
import { eventNames, type EventName, type Events, type Occurrence } from './events.js';

/** The headers of a delivery. */
export interface Delivery {
  /** The webhook-id, the same in every attempt. It is the event's id or an id of the message. */
  messageId: string;
  subscriptionId: string | null;
  url: URL;
}

/** Occurrences are lost: delivery continues after the cursor. */
export interface Gap {
  type: 'gap';
  cursor: string | null;
}

/** The server ended the subscription. */
export interface Terminated {
  type: 'terminated';
  error: { code: number; message: string; data?: unknown };
}

/** The functions that deliveries go to. */
export interface Handlers {
  /** Resolves when the event is kept; after a failure the server tries again. An event may come twice: remember its eventId. */
  onEvent: (event: Occurrence, delivery: Delivery) => Promise<void>;
  onGap?: (gap: Gap, delivery: Delivery) => Promise<void>;
  onTerminated?: (end: Terminated, delivery: Delivery) => Promise<void>;
  /** Receives the reason why a delivery was refused or failed. */
  onError?: (error: unknown) => void;
}

/** Options of receiver. */
export interface ReceiverOptions extends Handlers {
  /** Returns the secrets of a subscription, whsec_ and base64: two during a rotation. */
  secrets: (subscriptionId: string | null, delivery: Delivery) => readonly string[] | Promise<readonly string[]>;
}

const maxBody = 256 * 1024;

/** Returns a handler of the Fetch API that receives webhooks: it verifies signatures and answers the server's challenge. */
export function receiver(options: ReceiverOptions): (request: Request) => Promise<Response> {
  const known: readonly string[] = eventNames;
  return async (request) => {
    if (request.method !== 'POST') return new Response(null, { status: 405, headers: { Allow: 'POST' } });
    const { headers, url } = request;
    const delivery = { messageId: headers.get('webhook-id') ?? '', subscriptionId: headers.get('x-mcp-subscription-id'), url: new URL(url) };
    try {
      const body = await read(request);
      if (!body) return new Response(null, { status: 413, headers: { Connection: 'close' } });
      const secrets = await options.secrets(delivery.subscriptionId, delivery);
      if (!(await signed(body, headers, secrets))) throw new Refused('no secret of the subscription has signed the delivery within five minutes');
      const message = JSON.parse(new TextDecoder().decode(body)) as Message;
      if (!('type' in message)) {
        if (!known.includes(message.name)) throw new Error(`no event type is called ${message.name}`);
        await options.onEvent(message, delivery);
      } else if (message.type === 'verification') return Response.json({ challenge: message.challenge });
      else if (message.type === 'gap') await options.onGap?.(message, delivery);
      else await options.onTerminated?.(message, delivery);
    } catch (error) {
      options.onError?.(error);
      return new Response(null, { status: error instanceof Refused ? 401 : 500 });
    }
    return new Response(null, { status: 204 });
  };
}

type Message = Occurrence | { type: 'verification'; challenge: string } | Gap | Terminated;

class Refused extends Error {}

/** Reports whether one of the secrets signed the body (Standard Webhooks, v1) in the last five minutes. */
async function signed(body: Uint8Array, headers: Headers, secrets: readonly string[]): Promise<boolean> {
  const id = headers.get('webhook-id');
  const timestamp = headers.get('webhook-timestamp');
  if (!id || !timestamp || !(Math.abs(Date.now() / 1000 - Number(timestamp)) <= 300)) return false;
  const head = new TextEncoder().encode(`${id}.${timestamp}.`);
  const text = new Uint8Array(head.length + body.length);
  text.set(head);
  text.set(body, head.length);
  const signatures = (headers.get('webhook-signature') ?? '').split(' ').filter((s) => s.startsWith('v1,'));
  for (const secret of secrets) {
    const raw = decode(secret.replace(/^whsec_/, ''));
    const key = raw?.length && (await crypto.subtle.importKey('raw', raw, { name: 'HMAC', hash: 'SHA-256' }, false, ['verify']));
    if (!key) throw new Error('a secret is not whsec_ and base64');
    for (const signature of signatures) {
      const bytes = decode(signature.slice('v1,'.length));
      if (bytes && (await crypto.subtle.verify('HMAC', key, bytes, text))) return true;
    }
  }
  return false;
}

/** Decodes base64 of either alphabet; undefined if it is none. */
function decode(base64: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    return Uint8Array.from(atob(base64.replaceAll('-', '+').replaceAll('_', '/')), (c) => c.charCodeAt(0));
  } catch {
    return undefined;
  }
}

/** Reads the body; undefined if it is larger than a server may send. */
async function read(request: Request): Promise<Uint8Array | undefined> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  const reader = request.body?.getReader();
  for (let next = await reader?.read(); next && !next.done; next = await reader?.read()) {
    size += next.value.byteLength;
    if (size > maxBody) {
      await reader?.cancel();
      return undefined;
    }
    chunks.push(next.value);
  }
  const body = new Uint8Array(size);
  let at = 0;
  for (const chunk of chunks) {
    body.set(chunk, at);
    at += chunk.byteLength;
  }
  return body;
}

/** The part of a request of node:http, and so of express, that nodeListener uses. */
export interface NodeRequest extends AsyncIterable<unknown> {
  method?: string | undefined;
  url?: string | undefined;
  headers: { [name: string]: string | string[] | undefined };
  /** The body that express.raw() has read. */
  body?: unknown;
  readableEnded?: boolean;
}

/** The part of a response of node:http, and so of express, that nodeListener uses. */
export interface NodeResponse {
  writeHead(status: number, headers: Record<string, string>): unknown;
  end(body: string): unknown;
}

/**
 * Returns a listener of node:http for a handler of the Fetch API: createServer(nodeListener(receive)). It is a handler of
 * express too: app.post('/hooks', nodeListener(receive)), before express.json(), which takes the signed bytes away.
 */
export function nodeListener(handle: (request: Request) => Promise<Response>): (req: NodeRequest, res: NodeResponse) => void {
  return (req, res) => {
    const headers = new Headers();
    for (const [name, value] of Object.entries(req.headers)) {
      if (value !== undefined && !name.startsWith(':')) headers.set(name, Array.isArray(value) ? value.join(', ') : value);
    }
    const method = req.method ?? 'GET';
    const init: RequestInit & { duplex: 'half' } = { method, headers, duplex: 'half' };
    if (method !== 'GET' && method !== 'HEAD') init.body = bodyOf(req);
    const answer = async () => {
      const response = await handle(new Request(new URL(req.url ?? '/', 'http://localhost'), init));
      res.writeHead(response.status, Object.fromEntries(response.headers));
      res.end(await response.text());
    };
    answer().catch(() => {
      res.writeHead(500, {});
      res.end('');
    });
  };
}

function bodyOf(req: NodeRequest): ReadableStream<Uint8Array> {
  const raw = req.body instanceof Uint8Array ? req.body : undefined;
  const chunks = req[Symbol.asyncIterator]();
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      if (raw) {
        controller.enqueue(raw);
        return controller.close();
      }
      if (req.readableEnded) throw new Error('the body was parsed before the receiver: put it before express.json(), or use express.raw()');
      const next = await chunks.next();
      if (next.done) controller.close();
      else controller.enqueue(next.value as Uint8Array);
    },
  });
}

/** A subscription as a store keeps it: JSON, with secrets. */
export interface Subscription {
  name: EventName;
  arguments: unknown;
  url: string;
  secret: string;
  /** The secret before the last rotation, which late deliveries are signed with. */
  previous?: { secret: string; until: string };
  /** Absent until the server has accepted the subscription. */
  id?: string;
  /** Delivery continues here if the server has lost the subscription. */
  cursor: string | null;
  /** When the subscription expires; null means never. */
  refreshBefore?: string | null;
}

/** Keeps subscriptions, by key; methods may return promises. A Map is one, for as long as it lives. Processes that receive deliveries share it with the process that subscribes. */
export interface SubscriptionStore {
  get(key: string): Promise<Subscription | undefined> | Subscription | undefined;
  set(key: string, subscription: Subscription): unknown;
  delete(key: string): unknown;
}

/** The part of a Client of @modelcontextprotocol/client that Subscriptions uses. */
export interface Requester {
  request(request: { method: string; params: Record<string, unknown> }, schema: ReturnType<typeof as<Granted>>): Promise<Granted>;
}

/** The answer of events/subscribe. */
interface Granted {
  id: string;
  refreshBefore: string | null;
  cursor: string | null;
  truncated: boolean;
}

/** Options of Subscriptions. */
export interface SubscriptionsOptions {
  /** A connected client, or a function that returns one for each request. */
  client: Requester | (() => Promise<Requester>);
  /** The public https URL of the receiver. Each subscription adds a query parameter. */
  url: string;
  /** Where subscriptions are kept; by default in memory, so that a new process makes new secrets. */
  store?: SubscriptionStore;
  /** How long the server shall keep a subscription without a renewal; null means for ever. The server decides. */
  ttlMs?: number | null;
  /** Receives a loss: the server no longer has occurrences that should have come. */
  onGap?: (gap: { name: EventName; cursor: string | null }) => void;
  /** Receives the failures of renewals. ended: the server refuses, and the subscription is no longer renewed. */
  onError?: (error: unknown, about: { name: EventName; ended: boolean }) => void;
}

/** A renewal that is due. */
interface Live {
  name: EventName;
  timer: ReturnType<typeof setTimeout>;
  failures: number;
}

/**
 * Makes webhook subscriptions, renews them before they expire, changes their secrets and ends them. One process
 * subscribes; any number that share its store receive.
 */
export class Subscriptions {
  private readonly options: SubscriptionsOptions;
  private readonly store: SubscriptionStore;
  private readonly live = new Map<string, Live>();
  private readonly turns = new Map<string, Promise<unknown>>();
  private closed = false;

  constructor(options: SubscriptionsOptions) {
    this.options = options;
    this.store = options.store ?? new Map<string, Subscription>();
  }

  /** Returns a handler of the Fetch API that receives the deliveries of these subscriptions. */
  receiver(handlers: Handlers): (request: Request) => Promise<Response> {
    const keyIn = (delivery: Delivery) => delivery.url.searchParams.get(parameter) ?? '';
    return receiver({
      ...handlers,
      secrets: async (_, delivery) => {
        const s = await this.store.get(keyIn(delivery));
        if (!s) return [];
        return s.previous && Date.parse(s.previous.until) > Date.now() ? [s.secret, s.previous.secret] : [s.secret];
      },
      onTerminated: async (end, delivery) => {
        await handlers.onTerminated?.(end, delivery);
        await this.forget(keyIn(delivery));
      },
    });
  }

  /**
   * Subscribes to an event type, or renews the subscription that the store has, and renews it until unsubscribe or close.
   * The receiver must be reachable: the server sends it a challenge first.
   */
  async subscribe<K extends EventName>(name: K, options: { arguments?: Events[K]['arguments']; cursor?: string; maxAgeMs?: number } = {}): Promise<Subscription> {
    const args = options.arguments ?? {};
    const key = await keyOf(name, args);
    return this.inTurn(key, async () => {
      const url = new URL(this.options.url);
      url.searchParams.set(parameter, key);
      let kept = await this.store.get(key);
      const fresh = kept?.url !== url.href;
      if (kept && fresh) await this.end(kept).catch(() => {}); // it was at another URL, and expires at the latest
      if (!kept || fresh) {
        kept = { name, arguments: args, url: url.href, secret: newSecret(), cursor: kept?.cursor ?? options.cursor ?? null };
        await this.store.set(key, kept); // before the challenge comes
      }
      try {
        return await this.renew(key, kept, options.maxAgeMs);
      } catch (error) {
        if (fresh) await this.store.delete(key);
        throw error;
      }
    });
  }

  /** Gives a subscription a new secret. The receiver accepts the old one for another 15 minutes. */
  async rotate<K extends EventName>(name: K, args: Events[K]['arguments'] | Record<string, never> = {}): Promise<Subscription> {
    const key = await keyOf(name, args);
    return this.inTurn(key, async () => {
      const kept = await this.store.get(key);
      if (!kept) throw new Error(`there is no subscription to ${name} with these arguments; subscribe first`);
      const until = new Date(Date.now() + 15 * 60_000).toISOString();
      const next = { ...kept, secret: newSecret(), previous: { secret: kept.secret, until } };
      await this.store.set(key, next); // before the server signs with it
      return this.renew(key, next);
    });
  }

  /** Ends a subscription at the server and forgets it. */
  async unsubscribe<K extends EventName>(name: K, args: Events[K]['arguments'] | Record<string, never> = {}): Promise<void> {
    const key = await keyOf(name, args);
    await this.inTurn(key, async () => {
      const kept = await this.store.get(key);
      if (!kept) return;
      await this.end(kept);
      await this.forget(key);
    });
  }

  /** Stops renewals. The server delivers until the subscriptions expire; another Subscriptions continues them. */
  close(): void {
    this.closed = true;
    for (const { timer } of this.live.values()) clearTimeout(timer);
    this.live.clear();
  }

  private async renew(key: string, kept: Subscription, maxAgeMs?: number): Promise<Subscription> {
    const { ttlMs, onGap } = this.options;
    const granted = await this.send('events/subscribe', {
      name: kept.name,
      arguments: kept.arguments,
      delivery: { mode: 'webhook', url: kept.url, secret: kept.secret },
      cursor: kept.cursor,
      ...(maxAgeMs !== undefined && { maxAgeMs }),
      ...(ttlMs !== undefined && { ttlMs }),
    });
    const next = { ...kept, id: granted.id, cursor: granted.cursor, refreshBefore: granted.refreshBefore };
    if (next.previous && Date.parse(next.previous.until) < Date.now()) delete next.previous;
    await this.store.set(key, next);
    const left = granted.refreshBefore === null ? Infinity : Date.parse(granted.refreshBefore) - Date.now();
    this.schedule(key, kept.name, Math.max(5000, (left * 2) / 3), 0);
    if (granted.truncated) onGap?.({ name: kept.name, cursor: granted.cursor });
    return next;
  }

  private schedule(key: string, name: EventName, ms: number, failures: number): void {
    clearTimeout(this.live.get(key)?.timer);
    if (this.closed) return;
    const timer = setTimeout(() => void this.inTurn(key, () => this.due(key)), Math.min(ms, day));
    this.live.set(key, { name, timer, failures });
  }

  /** Renews a subscription whose time has come, unless it has ended meanwhile. */
  private async due(key: string): Promise<void> {
    const live = this.live.get(key);
    if (!live) return;
    const { name, failures } = live;
    try {
      const kept = await this.store.get(key);
      if (!kept) return void this.live.delete(key); // another process ended it
      await this.renew(key, kept);
    } catch (error) {
      const { code } = error as { code?: unknown };
      const ended = typeof code === 'number' && !passing.includes(code);
      if (ended) this.live.delete(key);
      else this.schedule(key, name, Math.min(1000 * 2 ** failures, 60_000) * (0.5 + Math.random() / 2), failures + 1);
      this.options.onError?.(error, { name, ended });
    }
  }

  private async end({ name, arguments: args, url }: Subscription): Promise<void> {
    try {
      await this.send('events/unsubscribe', { name, arguments: args, delivery: { url } });
    } catch (error) {
      if (!notFound.includes((error as { code?: unknown }).code as number)) throw error;
    }
  }

  private async forget(key: string): Promise<void> {
    clearTimeout(this.live.get(key)?.timer);
    this.live.delete(key);
    await this.store.delete(key);
  }

  private async send(method: string, params: Record<string, unknown>): Promise<Granted> {
    const { client } = this.options;
    return (typeof client === 'function' ? await client() : client).request({ method, params }, as<Granted>());
  }

  /** Runs what changes a subscription after the changes that began before. */
  private inTurn<T>(key: string, run: () => Promise<T>): Promise<T> {
    const mine = (this.turns.get(key) ?? Promise.resolve()).then(run, run);
    const settled = mine.catch(() => {}).then(() => {
      if (this.turns.get(key) === settled) this.turns.delete(key);
    });
    this.turns.set(key, settled);
    return mine;
  }
}

const parameter = 'subscription';
/** The longest time between renewals. */
const day = 24 * 60 * 60_000;

/** Codes of JSON-RPC errors: NotFound, and those after which a renewal can succeed, in both drafts of the extension. */
const notFound = [-32011, -32023];
const passing = [-32603, -32013, -32025, -32015, -32027];

/** Returns the key of a subscription: one for each event type and its arguments. */
async function keyOf(name: string, args: unknown): Promise<string> {
  const sorted = JSON.stringify(args, (_, v: unknown) =>
    v && typeof v === 'object' && !Array.isArray(v) ? Object.fromEntries(Object.entries(v).sort(([a], [b]) => (a < b ? -1 : 1))) : v,
  );
  const hash = new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(`${name} ${sorted}`)));
  return `${name}-${[...hash.slice(0, 8)].map((b) => b.toString(16).padStart(2, '0')).join('')}`;
}

function newSecret(): string {
  return `whsec_${btoa(String.fromCharCode(...crypto.getRandomValues(new Uint8Array(32))))}`;
}

/** A schema that takes the server at its word. */
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
