// A server of events by mcp-handler, which has the methods of webhooks: node handler.mjs PORT CERT. What mcp-handler leaves to an
// application is here, in memory: who a caller is (its token is its name), subscriptions, and deliveries to callbacks that
// have the certificate CERT. One event of type tick occurs each 50 ms.
import { createHmac, randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { request } from 'node:https';
import { setTimeout as sleep } from 'node:timers/promises';
import { createMcpHandler, experimental_registerMcpEvents as registerMcpEvents, withMcpAuth } from 'mcp-handler';
import * as z from 'zod';

const [port, cert] = process.argv.slice(2);
const ca = readFileSync(cert);
const began = Date.now();
const head = () => Math.floor((Date.now() - began) / 50);
const at = (n) => new Date(began + 50 * n);
const subscriptions = new Map(); // by the id of the key
const reserved = new Map(); // the operation that may still change a key, and the position at its request
const consented = new Set();

// pauseOf returns the milliseconds of Retry-After, which is a number of seconds or a date.
const pauseOf = (value = '0') => (/^[0-9]+$/.test(value) ? Number(value) * 1000 : Date.parse(value) - Date.now());

// call posts a signed message, by each secret that is valid, and returns the status and the beginning of the body.
function call(s, id, message) {
  const body = JSON.stringify(message);
  const stamp = String(Math.floor(Date.now() / 1000));
  const sign = (secret) => `v1,${createHmac('sha256', Buffer.from(secret.slice(6), 'base64')).update(`${id}.${stamp}.${body}`).digest('base64')}`;
  const secrets = s.before !== undefined && Date.now() < s.before.until ? [s.secret, s.before.secret] : [s.secret];
  return new Promise((done, fail) => {
    const r = request(s.url, { method: 'POST', ca, agent: false, signal: AbortSignal.timeout(5000), headers: { 'Content-Type': 'application/json',
      'webhook-id': id, 'webhook-timestamp': stamp, 'webhook-signature': secrets.map(sign).join(' '), 'X-MCP-Subscription-Id': s.id } }, (res) => {
      let text = '';
      res.on('data', (part) => {
        text += part;
        if (text.length > 65536) res.destroy(new Error('too much'));
      });
      res.on('end', () => done({ status: res.statusCode, text, retryAfter: pauseOf(res.headers['retry-after']) }));
      res.on('error', fail);
    });
    r.on('error', fail);
    r.end(body);
  });
}
const ok = (status) => status >= 200 && status < 300;
const failure = (error) => (error.name === 'TimeoutError' || error.code === 'ABORT_ERR' ? 'timeout' : /CERT|TLS|SSL/.test(error.code) ? 'tls_error' : 'connection_refused');

async function verifyEndpoint(target, { principal, signal }) {
  const whose = JSON.stringify([principal, target.url]);
  if (consented.has(whose)) return { verified: true };
  const challenge = randomUUID();
  try {
    const { status, text } = await call(target, `msg_verification_${randomUUID()}`, { type: 'verification', challenge });
    signal.throwIfAborted();
    if (!ok(status)) return { verified: false, reason: status >= 500 ? 'http_5xx' : status >= 400 ? 'http_4xx' : 'challenge_failed' };
    if (JSON.parse(text).challenge !== challenge) return { verified: false, reason: 'challenge_failed' };
  } catch (error) {
    return { verified: false, reason: error instanceof SyntaxError ? 'challenge_failed' : failure(error) };
  }
  consented.add(whose);
  return { verified: true };
}

const lives = (s) => subscriptions.get(s.id) === s && (s.refreshBefore === null || Date.now() < Date.parse(s.refreshBefore));
// mark is the position before all that is not settled yet, beside one.
const mark = (s, beside) => Math.min(s.at + 1, ...[...s.open].filter((n) => n !== beside)) - 1;

// attempt tries to deliver an event. It returns null if the event is settled, and otherwise the pause that the callback asks for.
async function attempt(s, n) {
  const id = `tick_${n}`;
  let status = 0;
  let retryAfter = 0;
  try {
    const event = { eventId: id, name: 'tick', timestamp: at(n).toISOString(), data: { seq: n }, cursor: String(mark(s, n)) };
    ({ status, retryAfter } = await call(s, id, event));
    s.lastError = ok(status) ? null : status >= 500 ? 'http_5xx' : 'http_4xx';
  } catch (error) {
    s.lastError = failure(error);
  }
  if (ok(status)) s.lastDeliveryAt = new Date().toISOString();
  if (!ok(status) && status !== 410 && status !== 413) return retryAfter;
  s.open.delete(n);
  return null;
}

// again tries an event that was refused, with growing pauses, beside all others.
async function again(s, n, retryAfter) {
  for (let pause = 1000; pause <= 8000; pause *= 2) {
    await sleep(Math.max(retryAfter, pause * (1 + Math.random() / 4)));
    if (!lives(s) || (retryAfter = await attempt(s, n)) === null) return;
  }
  s.open.delete(n);
}

// deliver delivers what occurs to a subscription until it ends.
async function deliver(s) {
  while (lives(s)) {
    if (s.at >= head()) {
      await sleep(25);
      continue;
    }
    const n = ++s.at;
    s.open.add(n);
    const retryAfter = await attempt(s, n);
    if (retryAfter !== null) again(s, n, retryAfter);
  }
  if (subscriptions.get(s.id) === s) subscriptions.delete(s.id);
}

const store = {
  async prepare(key) {
    const operation = randomUUID();
    reserved.set(key.id, { operation, at: head() });
    return operation;
  },
  async upsert(asked, _, operation) {
    const { operation: current, at } = reserved.get(asked.id) ?? {};
    if (current !== operation) throw new Error('superseded');
    reserved.delete(asked.id);
    let s = subscriptions.get(asked.id);
    if (s === undefined || !lives(s)) {
      s = { ...asked, at, open: new Set(), lastError: null };
      let truncated = false;
      if (asked.cursor !== null) {
        const from = Number(asked.cursor);
        truncated = !(/^[0-9]+$/.test(asked.cursor) && from <= head());
        if (!truncated) s.at = from;
        const least = asked.maxAgeMs === undefined ? 0 : Math.floor((Date.now() - asked.maxAgeMs - began) / 50);
        if (s.at < least) [s.at, truncated] = [least, true];
      }
      subscriptions.set(s.id, s);
      deliver(s);
      return { cursor: String(s.at), truncated };
    }
    if (s.secret !== asked.secret) s.before = { secret: s.secret, until: Date.now() + 60_000 };
    s.secret = asked.secret;
    s.refreshBefore = asked.refreshBefore;
    const { lastDeliveryAt, lastError } = s;
    return { cursor: String(mark(s)), truncated: false, deliveryStatus: { active: true, lastError, ...(lastDeliveryAt && { lastDeliveryAt }) } };
  },
  async remove(key) {
    return [reserved.delete(key.id), subscriptions.delete(key.id)].includes(true);
  },
};

const tick = { name: 'tick', description: 'A tick.', inputSchema: z.strictObject({ kind: z.enum(['a', 'b']).optional() }),
  payloadSchema: z.object({ seq: z.int() }), authorize: () => true };
const handler = withMcpAuth(createMcpHandler((server) => registerMcpEvents(server, { getPrincipal: ({ clientId }) => clientId, events: [tick],
  subscriptions: store, delivery: { verifyEndpoint } })),
(_, token) => token && { token, clientId: token, scopes: [] });

createServer(async (req, res) => {
  const stop = new AbortController();
  res.on('close', () => stop.abort());
  try {
    const parts = [];
    for await (const part of req) parts.push(part);
    const body = req.method === 'POST' ? Buffer.concat(parts) : undefined;
    const answer = await handler(new Request(`http://127.0.0.1:${port}${req.url}`, { method: req.method, headers: req.headers, body, signal: stop.signal }));
    res.writeHead(answer.status, Object.fromEntries(answer.headers));
    if (answer.body) for await (const chunk of answer.body) res.write(chunk);
    res.end();
  } catch {
    res.destroy();
  }
}).listen(Number(port), '127.0.0.1', () => console.log(`http://127.0.0.1:${port}/mcp`));
