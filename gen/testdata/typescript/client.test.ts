// Behaviour of client.ts that a real server does not show on demand. node --test runs it beside the TypeScript of
// examples/schemas/incidents.yaml.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { follow, stream, StreamError } from './incidents/client.js';
import { Wire } from './server.js';

/** Collects what an iterator yields until the test has enough. */
async function take<T extends { eventId: string }>(events: AsyncIterable<T>, n: number): Promise<string[]> {
  const got: string[] = [];
  for await (const event of events) if (got.push(event.eventId) >= n) break;
  return got;
}

const forbidden = { error: { code: -32012, message: 'Forbidden', data: { reason: 'revoked' } } };

test('one client carries several streams, and each gets its own notifications', async () => {
  const wire = await Wire.connect();
  const kept = new Map<string, string>();
  const got = take(follow(wire.client, ['incident.created', 'incident.updated'], { cursors: kept }), 4);
  const created = await wire.asked('events/stream', 'incident.created');
  const updated = await wire.asked('events/stream', 'incident.updated');
  for (const s of [created, updated]) wire.notify(s, 'active', { cursor: `${s.params.name}`, truncated: false });
  wire.event(updated, 'u1', 'incident.updated 1');
  wire.event(created, 'c1', 'incident.created 1');
  wire.event(updated, 'u2', 'incident.updated 2');
  wire.event(created, 'c2', 'incident.created 2');
  assert.deepEqual((await got).sort(), ['c1', 'c2', 'u1', 'u2']);
  for (const [name, cursor] of kept) assert.ok(cursor.startsWith(name), `${name} is at ${cursor}`);
  assert.equal(kept.size, 2);
});

test('a server that does not say which stream a notification belongs to can serve one', async () => {
  const wire = await Wire.connect();
  const got = take(follow(wire.client, 'incident.created'), 1);
  const s = await wire.asked('events/stream');
  wire.notify(s, 'active', { cursor: '0', truncated: false }, true);
  wire.event(s, 'c1', '1', true);
  assert.deepEqual(await got, ['c1']);
});

test('stream tells the end by the server from the end by the signal', async () => {
  const wire = await Wire.connect();
  const end = new AbortController();
  const quiet = take(stream1(wire, end.signal), 1);
  const first = await wire.asked('events/stream');
  wire.notify(first, 'active', { cursor: '0', truncated: false });
  end.abort();
  assert.deepEqual(await quiet, []);

  const reasonOf = (run: Promise<unknown>) => run.then(() => 'returned', (e: unknown) => (e instanceof StreamError ? `${e.reason} ${e.code}` : String(e)));
  const closed = reasonOf(take(stream1(wire), 1));
  const second = await wire.asked('events/stream');
  wire.notify(second, 'active', { cursor: '0', truncated: false });
  wire.answer(second, {});
  assert.equal(await closed, 'closed undefined');

  const terminated = reasonOf(take(stream1(wire), 1));
  const third = await wire.asked('events/stream');
  wire.notify(third, 'active', { cursor: '0', truncated: false });
  wire.notify(third, 'terminated', forbidden);
  wire.answer(third, {});
  assert.equal(await terminated, 'terminated -32012');
});

async function* stream1(wire: Wire, signal?: AbortSignal) {
  for await (const batch of stream(wire.client, 'incident.created', signal ? { signal } : {})) yield* batch.events;
}

test('a terminated subscription ends follow, with the reason as cause', async () => {
  const wire = await Wire.connect();
  const got = take(follow(wire.client, 'incident.created'), 1);
  const s = await wire.asked('events/stream');
  wire.notify(s, 'active', { cursor: '0', truncated: false });
  wire.notify(s, 'terminated', forbidden);
  await assert.rejects(got, (e: Error) => {
    assert.match(e.message, /incident\.created cannot be followed: .*Forbidden/);
    assert.deepEqual((e.cause as StreamError).data, { reason: 'revoked' });
    return true;
  });
});

test('a refused request ends follow', async () => {
  const wire = await Wire.connect();
  const got = take(follow(wire.client, 'incident.created'), 1);
  wire.refuse(await wire.asked('events/stream'), -32602, { errors: [] });
  await assert.rejects(got, /cannot be followed/);
});

test('follow continues at the cursor, and reports each retry and each loss', async () => {
  const wire = await Wire.connect();
  const gaps: unknown[] = [];
  const retries: string[] = [];
  const kept = new Map<string, string>();
  const events = follow(wire.client, 'incident.created', {
    arguments: { 'incident.created': { service: 'db', severity: 'P1' } },
    cursors: kept,
    onGap: (gap) => void gaps.push(gap),
    onRetry: ({ name, error }) => void retries.push(`${name} ${(error as StreamError).reason}`),
  });
  const got = take(events, 3);
  const first = await wire.asked('events/stream');
  assert.equal(first.params.cursor, null);
  wire.notify(first, 'active', { cursor: '0', truncated: false });
  wire.event(first, 'c1', '1');
  wire.answer(first, {});
  const second = await wire.asked('events/stream');
  assert.equal(second.params.cursor, '1');
  wire.notify(second, 'active', { cursor: '5', truncated: true });
  wire.event(second, 'c2', '6');
  wire.event(second, 'c3', '7');
  assert.deepEqual(await got, ['c1', 'c2', 'c3']);
  assert.deepEqual(gaps, [{ name: 'incident.created', cursor: '5' }]);
  assert.deepEqual(retries, ['incident.created closed']);
  // The last event was taken and no other asked for: a program that starts here receives it a second time.
  assert.deepEqual([...kept], [['incident.created {"service":"db","severity":"P1"}', '6']]);
});

test('the signal ends follow after the event under way, which is saved', async () => {
  const wire = await Wire.connect();
  const stop = new AbortController();
  const kept = new Map<string, string>();
  const got: string[] = [];
  const run = async () => {
    for await (const event of follow(wire.client, 'incident.created', { cursors: kept, signal: stop.signal })) {
      got.push(event.eventId);
      stop.abort();
    }
  };
  const ended = run();
  const s = await wire.asked('events/stream');
  wire.notify(s, 'active', { cursor: '0', truncated: false });
  wire.event(s, 'c1', '1');
  wire.event(s, 'c2', '2');
  await ended;
  assert.deepEqual([got, [...kept.values()]], [['c1'], ['1']]);
});

test('a failure of one event type is not behind the events of another', async () => {
  const wire = await Wire.connect();
  const events = follow(wire.client, ['incident.created', 'incident.updated']);
  const first = events.next();
  const created = await wire.asked('events/stream', 'incident.created');
  const updated = await wire.asked('events/stream', 'incident.updated');
  wire.notify(created, 'active', { cursor: '0', truncated: false });
  for (let i = 1; i <= 100; i++) wire.event(created, `c${i}`, `${i}`);
  assert.equal((await first).value?.eventId, 'c1');
  wire.refuse(updated, -32012);
  await assert.rejects(async () => {
    for (let i = 0; i < 50; i++) {
      await events.next();
      await new Promise((resolve) => setImmediate(resolve));
    }
  }, /incident\.updated cannot be followed/);
});

test('follow needs an event type', async () => {
  const wire = await Wire.connect();
  await assert.rejects(take(follow(wire.client, []), 1), /follow needs the name of an event type/);
});

test('a heartbeat moves the cursor in quiet times', async () => {
  const wire = await Wire.connect();
  const end = new AbortController();
  const kept = new Map<string, string>();
  const saved = new Promise<void>((resolve) => {
    const cursors = { get: () => undefined, set: (k: string, c: string) => (kept.set(k, c), c === '9' && resolve()) };
    void take(follow(wire.client, 'incident.created', { cursors, signal: end.signal }), 1);
  });
  const s = await wire.asked('events/stream');
  wire.notify(s, 'active', { cursor: '0', truncated: false });
  wire.notify(s, 'heartbeat', { cursor: '9' });
  await saved;
  end.abort();
  assert.deepEqual([...kept], [['incident.created', '9']]);
});

test('events of a type without replay that came between two streams are a loss', async () => {
  const wire = await Wire.connect();
  const gaps: unknown[] = [];
  const got = take(follow(wire.client, 'incident.created', { onGap: (gap) => void gaps.push(gap) }), 1);
  const first = await wire.asked('events/stream');
  wire.notify(first, 'active', { cursor: null, truncated: false });
  wire.answer(first, {});
  const second = await wire.asked('events/stream');
  wire.notify(second, 'active', { cursor: null, truncated: false });
  wire.event(second, 'c1', null);
  assert.deepEqual(await got, ['c1']);
  assert.deepEqual(gaps, [{ name: 'incident.created', cursor: null }]);
});

test('a type without push delivery is polled', async () => {
  const wire = await Wire.connect();
  const got = take(follow(wire.client, 'incident.created'), 2);
  wire.refuse(await wire.asked('events/stream'), -32014, { feature: 'deliveryMode', value: 'push' });
  const page = { truncated: false, hasMore: false, nextPollMs: 0 };
  wire.answer(await wire.asked('events/poll'), { ...page, cursor: '0', events: [] });
  const poll = await wire.asked('events/poll');
  assert.equal(poll.params.cursor, '0');
  const event = (id: string) => ({ eventId: id, name: 'incident.created', timestamp: '2026-01-01T00:00:00Z', data: {} });
  wire.answer(poll, { ...page, cursor: '2', events: [event('c1'), event('c2')] });
  assert.deepEqual(await got, ['c1', 'c2']);
});

test('a cursor store that cannot read ends follow before it begins', async () => {
  const wire = await Wire.connect();
  const cursors = { get: () => Promise.reject(new Error('EACCES')), set: () => {} };
  await assert.rejects(take(follow(wire.client, 'incident.created', { cursors }), 1), /the cursor store failed at incident\.created: Error: EACCES/);
});

test('a cursor store that cannot write ends follow, and the event comes again', async () => {
  const wire = await Wire.connect();
  const cursors = {
    kept: undefined as string | undefined,
    full: false,
    get: () => cursors.kept,
    set: (_: string, cursor: string) => {
      if (cursors.full) throw new Error('ENOSPC');
      cursors.kept = cursor;
    },
  };
  const got: string[] = [];
  const run = async () => {
    for await (const event of follow(wire.client, 'incident.created', { cursors })) {
      got.push(event.eventId);
      cursors.full = true;
    }
  };
  const failed = assert.rejects(run(), /the cursor store failed at incident\.created: Error: ENOSPC/);
  const first = await wire.asked('events/stream');
  wire.notify(first, 'active', { cursor: '0', truncated: false });
  wire.event(first, 'c1', '1');
  await failed;

  cursors.full = false;
  const again = take(follow(wire.client, 'incident.created', { cursors }), 1);
  const second = await wire.asked('events/stream');
  assert.equal(second.params.cursor, '0');
  wire.notify(second, 'active', { cursor: '0', truncated: false });
  wire.event(second, 'c1', '1');
  assert.deepEqual([...got, ...(await again)], ['c1', 'c1']);
});

test('follow connects a new client after the transport has ended', async () => {
  const wires: Wire[] = [];
  const connected: (() => void)[] = [];
  const next = () => new Promise<void>((resolve) => connected.push(resolve));
  const connect = async () => {
    const wire = await Wire.connect();
    wires.push(wire);
    connected.shift()?.();
    return wire.client;
  };
  const first = next();
  const got = take(follow(connect, ['incident.created', 'incident.updated']), 2);
  await first;
  const [one] = wires as [Wire];
  const s = await one.asked('events/stream', 'incident.created');
  one.notify(s, 'active', { cursor: '0', truncated: false });
  one.event(s, 'c1', '1');
  const second = next();
  await one.close();
  await second;
  const two = wires[1] as Wire;
  const r = await two.asked('events/stream', 'incident.created');
  assert.equal(r.params.cursor, '1');
  await two.asked('events/stream', 'incident.updated');
  two.notify(r, 'active', { cursor: '1', truncated: false });
  two.event(r, 'c2', '2');
  assert.deepEqual(await got, ['c1', 'c2']);
  assert.equal(wires.length, 2);
  assert.equal(two.client.transport, undefined, 'the client that follow connected is closed with it');
});

test('follow connects again when a token has expired, and throws if the next is refused too', async () => {
  let clients = 0;
  const connect = async () => {
    const { client } = await Wire.connect();
    clients++;
    if (client.transport) client.transport.send = () => Promise.reject(Object.assign(new Error('expired'), { status: 401 }));
    return client;
  };
  await assert.rejects(take(follow(connect, 'incident.created', { onRetry: () => assert.fail() }), 1), /cannot be followed: Error: expired/);
  assert.equal(clients, 2);
  await assert.rejects(take(follow(await connect(), 'incident.created'), 1), /cannot be followed: Error: expired/);
});

test('a client that has ended cannot be followed', async () => {
  const wire = await Wire.connect();
  const got = take(follow(wire.client, 'incident.created'), 1);
  await wire.asked('events/stream');
  await wire.close();
  await assert.rejects(got, /the client is not connected; give follow a function that connects one/);
});

test('a slow program does not make the client keep all', async () => {
  const wire = await Wire.connect();
  const events = follow(wire.client, 'incident.created', { onRetry: ({ error }) => assert.fail(String(error)) });
  const started = events.next();
  const s = await wire.asked('events/stream');
  wire.notify(s, 'active', { cursor: '0', truncated: false });
  for (let i = 1; i <= 1500; i++) wire.event(s, `c${i}`, `${i}`);
  const got = [((await started).value as { eventId: string }).eventId];
  const again = wire.asked('events/stream');
  const rest = take(events, 1499);
  const { params, ...second } = await again;
  const from = Number(params.cursor);
  assert.ok(from >= 1000 && from < 1500, `continued at ${from}`);
  const resumed = { ...second, params };
  wire.notify(resumed, 'active', { cursor: `${from}`, truncated: false });
  for (let i = from + 1; i <= 1500; i++) wire.event(resumed, `c${i}`, `${i}`);
  got.push(...(await rest));
  assert.deepEqual(got, Array.from({ length: 1500 }, (_, i) => `c${i + 1}`));
});
