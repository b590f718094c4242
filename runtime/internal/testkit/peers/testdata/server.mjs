// A server of events with a TypeScript SDK: node server.mjs 1|2 PORT [T0 MOST]. One event of type tick is there for each 50 ms
// since T0, at most MOST, so that a restart changes nothing. With a T0 in the far future a line of input makes it now. A server
// 1-plain or 2-plain has one tool and no events.
import { createServer } from 'node:http';
import { randomUUID } from 'node:crypto';
import * as z from 'zod';

const [kind, port, begin = Date.now(), most = Infinity] = process.argv.slice(2);
let t0 = Number(begin);
process.stdin.on('data', () => { t0 = Date.now(); });
const head = () => Math.max(0, Math.min(Number(most), Math.floor((Date.now() - t0) / 50)));
const at = (n) => t0 + 50 * n;
const event = (n) => ({ eventId: `e${n}`, name: 'tick', timestamp: new Date(at(n)).toISOString(), data: { seq: n } });
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const refuse = (code, message, data) => {
  throw Object.assign(new Error(message), { code, data });
};
// isCount tells an integer from what JavaScript would take for a number.
const isCount = (value, least) => Number.isInteger(value) && value >= least;
// place is where a request begins: at its cursor, or now where it has none, or none of ours.
function place({ name, cursor, maxAgeMs }) {
  if (typeof name !== 'string' || (maxAgeMs !== undefined && !isCount(maxAgeMs, 0))) refuse(-32602, 'InvalidParams');
  if (name !== 'tick') refuse(-32011, 'NotFound', { kind: 'event' });
  if (cursor === undefined || cursor === null) return { from: head(), truncated: false };
  if (!/^[0-9]+$/.test(cursor) || Number(cursor) > head()) return { from: head(), truncated: true };
  let from = Number(cursor);
  while (from < head() && Date.now() - at(from + 1) > (maxAgeMs ?? Infinity)) from++;
  return { from, truncated: from > Number(cursor) };
}

function list({ cursor } = {}) {
  if (cursor !== undefined) refuse(-32602, 'InvalidParams'); // there is one page
  return { events: [{ name: 'tick', description: 'A tick.', delivery: ['push', 'poll'], inputSchema: { type: 'object' },
    payloadSchema: { type: 'object' } }] };
}
function poll(params) {
  const { from, truncated } = place(params);
  const { maxEvents = 10 } = params;
  if (!isCount(maxEvents, 1)) refuse(-32602, 'InvalidParams');
  const to = Math.min(head(), from + Math.min(maxEvents, 100));
  const events = [];
  for (let n = from + 1; n <= to; n++) events.push(event(n));
  return { events, cursor: String(to), truncated, hasMore: to < head(), nextPollMs: 200 };
}
async function stream(params, id, signal, notify) {
  const send = (kind, params) => notify({ method: `notifications/events/${kind}`,
    params: { ...params, _meta: { 'io.modelcontextprotocol/subscriptionId': id } } });
  let { from, truncated } = place(params);
  await send('active', { cursor: String(from), truncated });
  for (let n = 1; !signal.aborted; n++) {
    while (from < head()) {
      from++;
      await send('event', { ...event(from), cursor: String(from) });
    }
    if (n % 20 === 0) await send('heartbeat', { cursor: String(from) });
    await sleep(25);
  }
  return {};
}

const info = { name: 'peer', version: '1' };
const [version, plain] = kind.split('-');
const options = { capabilities: plain ? { tools: {} } : { extensions: { 'io.modelcontextprotocol/events': {} } } };
const tools = () => ({ tools: [{ name: 'theirs', inputSchema: { type: 'object' } }] });
const call = () => ({ content: [{ type: 'text', text: 'x' }] });

async function first() {
  const { Server } = await import('@modelcontextprotocol/sdk/server/index.js');
  const { StreamableHTTPServerTransport } = await import('@modelcontextprotocol/sdk/server/streamableHttp.js');
  const sessions = new Map();
  const open = async () => {
    const server = new Server(info, options);
    const request = (method) => z.object({ method: z.literal(method), params: z.looseObject({}).optional() });
    if (plain) {
      server.setRequestHandler(request('tools/list'), tools);
      server.setRequestHandler(request('tools/call'), call);
    } else {
      server.setRequestHandler(request('events/list'), (r) => list(r.params));
      server.setRequestHandler(request('events/poll'), (r) => poll(r.params));
      server.setRequestHandler(request('events/stream'), (r, extra) => stream(r.params, extra.requestId, extra.signal, extra.sendNotification));
    }
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
    if (plain) {
      server.setRequestHandler('tools/list', tools);
      server.setRequestHandler('tools/call', call);
    } else {
      server.setRequestHandler('events/list', any, list);
      server.setRequestHandler('events/poll', any, poll);
      server.setRequestHandler('events/stream', any, (p, ctx) => stream(p, ctx.mcpReq.id, ctx.mcpReq.signal, ctx.mcpReq.notify));
    }
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
createServer((req, res) => serve(req, res).catch(() => res.destroy())).listen(Number(port), '127.0.0.1', () => console.log(`http://127.0.0.1:${port}/mcp`));
