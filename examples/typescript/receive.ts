// Receives the pushes that examples/github tells of, each on a line, until there are COUNT of them:
//
//	node receive.js poll|stream URL TOKEN COUNT
//	node receive.js webhook|ai-sdk URL TOKEN COUNT PORT CERT KEY
//
// It goes on where it was when the server comes back. The event types come from examples/schemas/github.yaml, the files
// below github are generated.
import { readFileSync } from 'node:fs';
import { createServer } from 'node:https';
import { setTimeout as sleep } from 'node:timers/promises';
import { createMCPClient, type Experimental_MCPEventSubscription } from '@ai-sdk/mcp';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { createEventWebhook, subscribe } from './github/ai-sdk.js';
import { poll, stream } from './github/client.js';
import type { Events, Occurrence } from './github/events.js';
import { nodeListener, Subscriptions } from './github/webhook.js';

const [mode = '', url = '', token = '', count = '1', port = '0', cert = '', key = ''] = process.argv.slice(2);
const headers = { Authorization: `Bearer ${token}` };
const wanted: Events['push']['arguments'] = { repo: 'Codertocat/Hello-World' };
const seen = new Set<string>();
let done = () => {};
const all = new Promise<void>((resolve) => (done = resolve));

/** Prints an occurrence, the first time that it comes. */
function show(event: Occurrence): void {
  if (seen.has(event.eventId)) return;
  seen.add(event.eventId);
  switch (event.name) {
    case 'push':
      console.log(JSON.stringify({ id: event.eventId, ref: event.data.ref, commits: event.data.commits.toFixed() }));
      break;
    default:
      throw new Error(`${event.name} was not asked for`);
  }
  if (seen.size >= Number(count)) done();
}

async function connect(): Promise<Client> {
  const client = new Client({ name: 'receive', version: '1' }, { versionNegotiation: { mode: { pin: '2026-07-28' } } });
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));
  return client;
}

/** By poll or stream: the cursor is kept over a failure. follow.ts leaves this to follow. */
async function keepReceiving(receive: typeof stream<'push'>): Promise<void> {
  let cursor: string | null = null;
  while (seen.size < Number(count)) {
    try {
      const client = await connect();
      for await (const batch of receive(client, 'push', { arguments: wanted, cursor })) {
        if (cursor === null) console.log('ready');
        if (batch.truncated) throw new Error('events are lost');
        batch.events.forEach(show);
        cursor = batch.cursor;
        if (seen.size >= Number(count)) break;
      }
      await client.close();
    } catch (error) {
      console.error(mode, String(error));
    }
    await sleep(200);
  }
}

/** Serves a handler of the Fetch API over TLS. */
async function serve(handle: (request: Request) => Promise<Response>): Promise<{ origin: string; close: () => void }> {
  const server = createServer({ cert: readFileSync(cert), key: readFileSync(key) }, nodeListener(handle));
  await new Promise<void>((resolve) => server.listen(Number(port), '127.0.0.1', resolve));
  return { origin: `https://127.0.0.1:${port}`, close: () => server.close(() => server.closeAllConnections()) };
}

async function byWebhook(): Promise<void> {
  const client = await connect();
  const hooks = new Subscriptions({ client, url: `https://127.0.0.1:${port}`, ttlMs: 10_000, onError: (error) => console.error('renewal', String(error)) });
  const onEvent = async (event: Occurrence) => {
    show(event);
    if (seen.size === 10) await hooks.rotate('push', wanted);
  };
  const { close } = await serve(hooks.receiver({ onEvent, onError: console.error }));
  await hooks.subscribe('push', { arguments: wanted });
  console.log('ready');
  await all;
  await hooks.unsubscribe('push', wanted);
  await client.close();
  close();
}

async function byAISDK(): Promise<void> {
  const kept = new Map<string, Experimental_MCPEventSubscription>();
  const store = {
    get: async (key: string) => kept.get(key),
    getById: async (id: string) => [...kept.values()].find((s) => s.id === id),
    set: async (s: Experimental_MCPEventSubscription) => void kept.set(s.key, s),
    update: async (key: string, patch: Partial<Experimental_MCPEventSubscription>) => {
      const s = kept.get(key);
      if (s) kept.set(key, { ...s, ...patch });
    },
    delete: async (key: string) => void kept.delete(key),
  };
  const { origin, close } = await serve(createEventWebhook({ store, onEvent: async ({ event }) => show(event), onError: console.error }));
  const client = await createMCPClient({ transport: { type: 'http', url, headers }, experimental_events: { store } });
  await subscribe(client.experimental_events, { name: 'push', arguments: wanted, delivery: { mode: 'webhook', url: origin } });
  console.log('ready');
  await all;
  await client.close();
  close();
}

switch (mode) {
  case 'poll':
    await keepReceiving((client, name, options) => poll(client, name, { ...options, waitMs: 1000 }));
    break;
  case 'stream':
    await keepReceiving((client, name, options) => stream(client, name, { ...options, idleMs: 4000 }));
    break;
  case 'webhook':
    await byWebhook();
    break;
  case 'ai-sdk':
    await byAISDK();
    break;
  default:
    throw new Error(`no way of receiving is called ${mode}`);
}
process.exit(0);
