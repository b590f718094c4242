// Behaviour of webhook.ts without a server of events. node --test runs it beside the TypeScript of
// examples/schemas/incidents.yaml. Signatures are those of the package standardwebhooks.
import assert from 'node:assert/strict';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { mock, test } from 'node:test';
import express from 'express';
import { Webhook } from 'standardwebhooks';
import { nodeListener, receiver, Subscriptions, type Handlers, type Subscription } from './incidents/webhook.js';

const secret = `whsec_${btoa('a secret of at least 24 bytes')}`;
const other = `whsec_${btoa('another secret of some bytes')}`;
const occurrence = { eventId: 'e1', name: 'incident.created', timestamp: '2026-01-01T00:00:00Z', data: { title: 'ä' }, cursor: '1' };

/** Signs a delivery as a server does. */
function delivery(body: unknown, by = [secret], at = new Date(), id = 'sub_1', url = 'https://example.com/hooks'): Request {
  const text = JSON.stringify(body);
  const headers = {
    'webhook-id': 'm1',
    'webhook-timestamp': `${Math.floor(at.getTime() / 1000)}`,
    'webhook-signature': by.map((s) => new Webhook(s).sign('m1', at, text)).join(' '),
    'x-mcp-subscription-id': id,
    'content-type': 'application/json',
  };
  return new Request(url, { method: 'POST', headers, body: text });
}

function receiving(more: Partial<Handlers> = {}, secrets: readonly string[] = [secret]) {
  const got: string[] = [];
  const errors: string[] = [];
  const options = { secrets: () => secrets, onEvent: async (e: { eventId: string }) => void got.push(e.eventId), onError: (e: unknown) => void errors.push(String(e)) };
  return { got, errors, handle: receiver({ ...options, ...more }) };
}

test('a signed delivery is received, whichever secret of a rotation signed it', async () => {
  for (const by of [[secret], [other], [other, secret]]) {
    const { got, handle } = receiving({}, [secret, other]);
    assert.equal((await handle(delivery(occurrence, by))).status, 204);
    assert.deepEqual(got, ['e1']);
  }
});

test('a delivery that is forged, old, from the future or of another secret is refused', async () => {
  const forged = delivery(occurrence);
  const minutes = (n: number) => new Date(Date.now() + n * 60_000);
  for (const request of [
    new Request(forged.url, { method: 'POST', headers: forged.headers, body: JSON.stringify({ ...occurrence, eventId: 'e2' }) }),
    delivery(occurrence, [other]),
    delivery(occurrence, [secret], minutes(-6)),
    delivery(occurrence, [secret], minutes(6)),
    new Request(forged.url, { method: 'POST', body: JSON.stringify(occurrence) }),
    new Request(forged.url, { method: 'POST', headers: { ...Object.fromEntries(forged.headers), 'webhook-signature': 'v1,*** v1, v2,x' }, body: '{}' }),
  ]) {
    const { got, errors, handle } = receiving();
    assert.equal((await handle(request)).status, 401);
    assert.deepEqual(got, []);
    assert.match(errors.join(), /no secret of the subscription has signed/);
  }
  const { errors, handle } = receiving({}, ['whsec_***']);
  assert.equal((await handle(delivery(occurrence))).status, 500);
  assert.match(errors.join(), /not whsec_ and base64/);
});

test('the receiver answers challenges, and forwards gaps and ends', async () => {
  const seen: unknown[] = [];
  const { handle } = receiving({ onGap: async (gap) => void seen.push(gap), onTerminated: async (end) => void seen.push(end.error.code) });
  const answer = await handle(delivery({ type: 'verification', challenge: 'n0nce' }));
  assert.deepEqual([answer.status, await answer.json()], [200, { challenge: 'n0nce' }]);
  assert.equal((await handle(delivery({ type: 'gap', cursor: '7' }))).status, 204);
  assert.equal((await handle(delivery({ type: 'terminated', error: { code: -32012, message: 'Forbidden' } }))).status, 204);
  assert.deepEqual(seen, [{ type: 'gap', cursor: '7' }, -32012]);
});

test('a failure of the program, an unknown type, another method and a large body are answered so', async () => {
  const failing = receiving({ onEvent: () => Promise.reject(new Error('full')) });
  assert.equal((await failing.handle(delivery(occurrence))).status, 500);
  assert.match(failing.errors.join(), /full/);
  const unknown = receiving();
  assert.equal((await unknown.handle(delivery({ ...occurrence, name: 'incident.deleted' }))).status, 500);
  assert.match(unknown.errors.join(), /no event type is called incident\.deleted/);
  assert.equal((await unknown.handle(new Request('https://example.com/'))).status, 405);
  assert.equal((await unknown.handle(delivery({ ...occurrence, data: 'x'.repeat(300_000) }))).status, 413);
});

/** Serves a listener and posts a delivery to it. */
async function post(listener: RequestListener, request: Request): Promise<number> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const body = await request.text();
  const { status } = await fetch(`http://127.0.0.1:${port}/hooks?subscription=a`, { method: request.method, headers: request.headers, ...(body && { body }) });
  await new Promise((resolve) => server.close(resolve));
  return status;
}

test('node:http and express serve a receiver', async () => {
  const urls: string[] = [];
  const served = () => receiving({ onEvent: async (_, { url }) => void urls.push(url.pathname + url.search) });
  const apps: RequestListener[] = [nodeListener(served().handle)];
  for (const before of [[], [express.raw({ type: '*/*' })]]) {
    const app = express();
    app.post('/hooks', ...before, nodeListener(served().handle));
    apps.push(app);
  }
  for (const app of apps) assert.equal(await post(app, delivery(occurrence)), 204);
  assert.deepEqual(urls, Array(3).fill('/hooks?subscription=a'));

  assert.equal(await post(nodeListener(served().handle), new Request('https://example.com/')), 405);
  assert.equal(await post(nodeListener(served().handle), delivery({ ...occurrence, data: 'x'.repeat(300_000) })), 413);
  assert.equal(await post(nodeListener(() => Promise.reject(new Error('none'))), delivery(occurrence)), 500);

  const parsed = receiving();
  const app = express();
  app.use(express.json());
  app.post('/hooks', nodeListener(parsed.handle));
  assert.equal(await post(app, delivery(occurrence)), 500);
  assert.match(parsed.errors.join(), /parsed before the receiver: put it before express\.json/);
});

type Params = { name?: string; arguments?: unknown; cursor?: string | null; ttlMs?: number; delivery: { url: string; secret?: string } };

/** A server of subscriptions that grants one minute from now. */
function server() {
  const asked: { method: string; params: Params }[] = [];
  const state = { refuse: undefined as { code: number } | Error | undefined, truncated: false };
  let waiting: (() => void)[] = [];
  const request = async ({ method, params }: { method: string; params: Record<string, unknown> }) => {
    asked.push({ method, params: params as Params });
    for (const wake of waiting.splice(0)) wake();
    if (state.refuse) throw state.refuse;
    return { id: 'sub_1', refreshBefore: new Date(Date.now() + 60_000).toISOString(), cursor: `${asked.length}`, truncated: state.truncated };
  };
  const reach = async (n: number) => {
    while (asked.length < n) await new Promise<void>((resolve) => waiting.push(resolve));
    waiting = [];
    await new Promise((resolve) => setImmediate(resolve));
  };
  return { client: { request }, asked, state, reach };
}

const url = 'https://example.com/hooks?tenant=1';

test('a subscription is made, renewed before it expires, rotated and ended', async () => {
  mock.timers.enable({ apis: ['setTimeout', 'Date'], now: Date.parse('2026-01-01T00:00:00Z') });
  try {
    const { client, asked, reach } = server();
    const store = new Map<string, Subscription>();
    const hooks = new Subscriptions({ client, url, store, ttlMs: 90_000 });
    const made = await hooks.subscribe('incident.created', { arguments: { severity: 'P1' }, cursor: '0' });
    const first = asked[0]?.params as Params;
    assert.match(first.delivery.url, /^https:\/\/example\.com\/hooks\?tenant=1&subscription=incident\.created-[0-9a-f]{16}$/);
    assert.match(first.delivery.secret ?? '', /^whsec_.{44}$/);
    assert.deepEqual([first.name, first.arguments, first.cursor, first.ttlMs], ['incident.created', { severity: 'P1' }, '0', 90_000]);
    assert.deepEqual([made.id, made.refreshBefore], ['sub_1', '2026-01-01T00:01:00.000Z']);

    mock.timers.tick(39_000);
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(asked.length, 1);
    mock.timers.tick(1000); // two thirds of a minute
    await reach(2);
    assert.deepEqual(asked[1]?.params, { ...first, cursor: '1' });

    const rotated = await hooks.rotate('incident.created', { severity: 'P1' });
    assert.notEqual(rotated.secret, first.delivery.secret);
    assert.equal(asked[2]?.params.delivery.secret, rotated.secret);
    const got: string[] = [];
    const handle = hooks.receiver({ onEvent: async (e) => void got.push(e.eventId) });
    const at = () => new Date(Date.now());
    for (const by of [rotated.secret, first.delivery.secret as string]) {
      assert.equal((await handle(delivery(occurrence, [by], at(), 'sub_1', first.delivery.url))).status, 204);
    }
    mock.timers.tick(15 * 60_000);
    await reach(4);
    assert.equal((await handle(delivery(occurrence, [first.delivery.secret as string], at(), 'sub_1', first.delivery.url))).status, 401);
    assert.equal((await handle(delivery(occurrence, [rotated.secret], at(), 'sub_1', url))).status, 401, 'without its parameter');
    assert.deepEqual(got, ['e1', 'e1']);

    await hooks.unsubscribe('incident.created', { severity: 'P1' });
    assert.deepEqual(asked.at(-1), { method: 'events/unsubscribe', params: { name: 'incident.created', arguments: { severity: 'P1' }, delivery: { url: first.delivery.url } } });
    assert.equal(store.size, 0);
    const calls = asked.length;
    mock.timers.tick(10 * 60_000);
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(asked.length, calls);
  } finally {
    mock.timers.reset();
  }
});

test('a new process continues a subscription of the store', async () => {
  const { client, asked } = server();
  const store = new Map<string, Subscription>();
  const old = new Subscriptions({ client, url, store });
  const made = await old.subscribe('incident.created', { arguments: { severity: 'P1', service: 'db' } });
  old.close();
  const hooks = new Subscriptions({ client: async () => client, url, store });
  const again = await hooks.subscribe('incident.created', { arguments: { service: 'db', severity: 'P1' } });
  hooks.close();
  assert.equal(again.secret, made.secret);
  assert.equal(asked[1]?.params.cursor, '1');

  const moved = new Subscriptions({ client, url: 'https://example.org/', store });
  await moved.subscribe('incident.created', { arguments: { service: 'db', severity: 'P1' } });
  moved.close();
  assert.deepEqual(asked.slice(2).map((a) => [a.method, new URL(a.params.delivery.url).origin, a.params.cursor]), [
    ['events/unsubscribe', 'https://example.com', undefined],
    ['events/subscribe', 'https://example.org', '2'],
  ]);
  assert.equal(store.size, 1);
});

test('a refused subscription leaves nothing, and a rotation needs one', async () => {
  const { client, state } = server();
  state.refuse = Object.assign(new Error('Forbidden'), { code: -32012 });
  const store = new Map<string, Subscription>();
  const hooks = new Subscriptions({ client, url, store });
  await assert.rejects(hooks.subscribe('incident.created'), /Forbidden/);
  assert.equal(store.size, 0);
  await assert.rejects(hooks.rotate('incident.created'), /no subscription to incident\.created with these arguments; subscribe first/);
});

test('a renewal that fails is repeated, one that is refused is not, and losses are reported', async () => {
  mock.timers.enable({ apis: ['setTimeout', 'Date'] });
  try {
    const { client, asked, state, reach } = server();
    const told: unknown[] = [];
    const hooks = new Subscriptions({
      client,
      url,
      onError: (error, about) => void told.push([(error as Error).message, about.ended]),
      onGap: (gap) => void told.push(gap),
    });
    await hooks.subscribe('incident.created');
    state.refuse = new Error('fetch failed');
    mock.timers.tick(40_000);
    await reach(2);
    state.refuse = undefined;
    state.truncated = true;
    mock.timers.tick(1000);
    await reach(3);
    state.refuse = Object.assign(new Error('Forbidden'), { code: -32012 });
    mock.timers.tick(40_000);
    await reach(4);
    mock.timers.tick(600_000);
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(asked.length, 4);
    assert.deepEqual(told, [['fetch failed', false], { name: 'incident.created', cursor: '3' }, ['Forbidden', true]]);
  } finally {
    mock.timers.reset();
  }
});

test('a subscription that the server ends is not renewed', async () => {
  mock.timers.enable({ apis: ['setTimeout', 'Date'] });
  try {
    const { client, asked } = server();
    const store = new Map<string, Subscription>();
    const hooks = new Subscriptions({ client, url, store });
    const made = await hooks.subscribe('incident.created');
    const ends: number[] = [];
    const handle = hooks.receiver({ onEvent: async () => {}, onTerminated: async (end) => void ends.push(end.error.code) });
    const end = delivery({ type: 'terminated', error: { code: -32012, message: 'Forbidden' } }, [made.secret], new Date(Date.now()), 'sub_1', made.url);
    assert.equal((await handle(end)).status, 204);
    mock.timers.tick(600_000);
    await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual([ends, asked.length, store.size], [[-32012], 1, 0]);
  } finally {
    mock.timers.reset();
  }
});
