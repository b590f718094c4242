// A client of another make that follows the event type tick until it is ended: node follow.mjs 1|2|2-legacy|ai-sdk URL [CERT KEY].
// With either SDK it polls, by requests of its own; with the AI SDK it has webhooks, for which CERT and KEY are. It prints
// the eventId of each event, and on standard error what is lost or at an end.
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:https';
import { setTimeout as sleep } from 'node:timers/promises';
import * as z from 'zod';

const [make, url, cert, key] = process.argv.slice(2);
const info = { name: 'follow', version: '1' };
const extensions = { 'io.modelcontextprotocol/events': {} };
const loose = z.looseObject({});
const seen = new Set();
const take = (event) => {
  if (seen.has(event.eventId)) return;
  seen.add(event.eventId);
  console.log(event.eventId);
};
const has = ({ events, extensions } = {}) => events !== undefined || extensions?.['io.modelcontextprotocol/events'] !== undefined;
const notFound = (code) => code === -32011 || code === -32023;
const stop = (error) => {
  console.error('stopped:', String(error));
  process.exit(1);
};

const connections = {
  async 1() {
    const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
    const { StreamableHTTPClientTransport } = await import('@modelcontextprotocol/sdk/client/streamableHttp.js');
    const client = new Client(info, { capabilities: { extensions } });
    await client.connect(new StreamableHTTPClientTransport(new URL(url)));
    return client;
  },
  async 2(mode = { pin: '2026-07-28' }) {
    const { Client, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client');
    const client = new Client(info, { capabilities: { extensions }, versionNegotiation: { mode } });
    await client.connect(new StreamableHTTPClientTransport(new URL(url)));
    return client;
  },
  '2-legacy': () => connections[2]('legacy'),
};

async function poll() {
  let cursor = null;
  let pause = 500;
  let client;
  for (;;) {
    try {
      if (client === undefined) {
        client = await connections[make]();
        if (!has(client.getServerCapabilities())) {
          await sleep(2 ** 30);
        }
        let type;
        for (let params = {}; type === undefined && params !== undefined; ) {
          const page = await client.request({ method: 'events/list', params }, loose);
          type = page.events.find((event) => event.name === 'tick');
          params = page.nextCursor === undefined ? undefined : { cursor: page.nextCursor };
        }
        if (!type?.delivery?.includes('poll')) throw new Error('tick offers no poll');
      }
      const page = await client.request({ method: 'events/poll', params: { name: 'tick', cursor } }, loose);
      if (!Array.isArray(page.events)) throw new Error('a page without events');
      page.events.forEach(take);
      if (page.truncated) console.error('events are lost');
      cursor = page.cursor ?? null;
      pause = 500;
      if (!page.hasMore) await sleep(Math.max(1000, page.nextPollMs ?? 0));
    } catch (error) {
      // An error of the protocol is the server's word; anything else may be the connection's.
      if (Number.isInteger(error.code) && error.code <= -32000 && error.code > -32100 && error.code !== -32603 && error.code !== -32000 && error.code !== -32001 && !notFound(error.code)) stop(error);
      if (error.code !== -32603) {
        await client?.close().catch(() => {});
        client = undefined; // it lists again
      }
      console.error(String(error));
      await sleep(pause * (0.8 + Math.random() / 5));
      pause = Math.min(2 * pause, 30_000);
    }
  }
}

async function webhook() {
  const { createMCPClient, experimental_createMCPEventWebhook } = await import('@ai-sdk/mcp');
  const kept = new Map();
  const store = {
    get: async (k) => kept.get(k),
    getById: async (id) => [...kept.values()].find((s) => s.id === id),
    set: async (s) => void kept.set(s.key, s),
    update: async (k, patch) => void (kept.has(k) && kept.set(k, { ...kept.get(k), ...patch })),
    delete: async (k) => void kept.delete(k),
  };
  let cursor = null;
  let ended = () => {};
  const handle = experimental_createMCPEventWebhook({ store, onEvent: async ({ event }) => {
      take(event);
      cursor = event.cursor ?? cursor;
    },
    onGap: async () => console.error('events are lost'), onTerminated: async () => ended(true), onError: (error) => console.error(String(error)) });
  const server = createServer({ cert: readFileSync(cert), key: readFileSync(key) }, async (req, res) => {
    const body = [];
    for await (const chunk of req) body.push(chunk);
    const answer = await handle(new Request(new URL(req.url, origin), { method: req.method, headers: req.headers, ...(req.method === 'POST' && { body: Buffer.concat(body) }) }));
    res.writeHead(answer.status, Object.fromEntries(answer.headers)).end(await answer.text());
  });
  await new Promise((listening) => server.listen(0, '127.0.0.1', listening));
  const origin = `https://127.0.0.1:${server.address().port}`;
  let client;
  let id;
  process.once('SIGTERM', async () => {
    if (id !== undefined) await client?.experimental_events.unsubscribe({ id }).catch(() => {});
    process.exit(0);
  });
  for (let pause = 500; ; ) {
    try {
      client ??= await createMCPClient({ transport: { type: 'http', url }, capabilities: { extensions }, experimental_events: { store } });
      const result = id === undefined
        ? await client.experimental_events.subscribe({ name: 'tick', arguments: {}, cursor, delivery: { mode: 'webhook', url: `${origin}/${randomUUID()}` } })
        : await client.experimental_events.refresh({ id });
      id = result.id;
      pause = 500;
      const until = new Promise((resolve) => (ended = resolve));
      const wait = result.refreshBefore === null ? 2 ** 30 : (Date.parse(result.refreshBefore) - Date.now()) * (2 / 3);
      if (await Promise.race([sleep(Math.max(wait, 100)), until])) id = undefined; // it lists and subscribes again
    } catch (error) {
      console.error(String(error));
      client = undefined;
      await sleep(pause);
      pause = Math.min(2 * pause, 30_000);
    }
  }
}

await (make === 'ai-sdk' ? webhook() : poll());
