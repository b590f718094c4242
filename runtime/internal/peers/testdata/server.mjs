// A server of events with a TypeScript SDK: node server.mjs 1|2 PORT T0. One event of type tick is there for each 50 ms
// since T0, up to 100, so that a restart changes nothing.
import { createServer } from 'node:http';
import { randomUUID } from 'node:crypto';
import * as z from 'zod';

const [version, port, t0] = process.argv.slice(2);
const head = () => Math.max(0, Math.min(100, Math.floor((Date.now() - Number(t0)) / 50)));
const event = (n) => ({ eventId: `e${n}`, name: 'tick', timestamp: new Date(Number(t0) + 50 * n).toISOString(), data: { seq: n } });
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const place = (cursor) => (cursor === undefined || cursor === null ? head() : Number(cursor));

const list = () => ({ events: [{ name: 'tick', description: 'A tick.', delivery: ['push', 'poll'], inputSchema: { type: 'object' },
  payloadSchema: { type: 'object' } }] });
function poll({ cursor }) {
  const from = place(cursor);
  const to = Math.min(head(), from + 10);
  const events = [];
  for (let n = from + 1; n <= to; n++) events.push(event(n));
  return { events, cursor: String(to), truncated: false, hasMore: to < head(), nextPollMs: 200 };
}
async function stream({ cursor }, id, signal, notify) {
  const send = (kind, params) => notify({ method: `notifications/events/${kind}`,
    params: { ...params, _meta: { 'io.modelcontextprotocol/subscriptionId': id } } });
  let at = place(cursor);
  await send('active', { cursor: String(at), truncated: false });
  for (let n = 1; !signal.aborted; n++) {
    while (at < head()) {
      at++;
      await send('event', { ...event(at), cursor: String(at) });
    }
    if (n % 20 === 0) await send('heartbeat', { cursor: String(at) });
    await sleep(25);
  }
  return {};
}

const info = { name: 'peer', version: '1' };
const options = { capabilities: { extensions: { 'io.modelcontextprotocol/events': {} } } };

async function first() {
  const { Server } = await import('@modelcontextprotocol/sdk/server/index.js');
  const { StreamableHTTPServerTransport } = await import('@modelcontextprotocol/sdk/server/streamableHttp.js');
  const sessions = new Map();
  const open = async () => {
    const server = new Server(info, options);
    const request = (method) => z.object({ method: z.literal(method), params: z.looseObject({}).optional() });
    server.setRequestHandler(request('events/list'), list);
    server.setRequestHandler(request('events/poll'), (r) => poll(r.params));
    server.setRequestHandler(request('events/stream'), (r, extra) => stream(r.params, extra.requestId, extra.signal, extra.sendNotification));
    const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: randomUUID, onsessioninitialized: (id) => sessions.set(id, transport) });
    await server.connect(transport);
    return transport;
  };
  return async (req, res) => {
    const id = req.headers['mcp-session-id'];
    if (id !== undefined && !sessions.has(id)) {
      res.writeHead(404, { 'Content-Type': 'application/json' });
      res.end('{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}');
      return;
    }
    await (id === undefined ? await open() : sessions.get(id)).handleRequest(req, res);
  };
}

async function second() {
  const { Server, createMcpHandler } = await import('@modelcontextprotocol/server');
  const any = { params: z.looseObject({}) };
  const handler = createMcpHandler(() => {
    const server = new Server(info, options);
    server.setRequestHandler('events/list', any, list);
    server.setRequestHandler('events/poll', any, poll);
    server.setRequestHandler('events/stream', any, (p, ctx) => stream(p, ctx.mcpReq.id, ctx.mcpReq.signal, ctx.mcpReq.notify));
    return server;
  });
  return async (req, res) => {
    const stop = new AbortController();
    res.on('close', () => stop.abort());
    const parts = [];
    for await (const p of req) parts.push(p);
    const body = req.method === 'POST' ? Buffer.concat(parts) : undefined;
    const answer = await handler.fetch(new Request(`http://127.0.0.1:${port}${req.url}`,
      { method: req.method, headers: req.headers, body, signal: stop.signal }));
    res.writeHead(answer.status, Object.fromEntries(answer.headers));
    if (answer.body) for await (const chunk of answer.body) res.write(chunk);
    res.end();
  };
}

const serve = await (version === '1' ? first() : second());
process.on('unhandledRejection', () => {}); // streams whose client has gone
createServer((req, res) => serve(req, res).catch(() => res.destroy())).listen(Number(port), '127.0.0.1', () => console.log('ready'));
