// Follows two event types over one client, across restarts of the server and of itself:
// node follow.js URL TOKEN CURSORS. The event types are those of examples/schemas/github.yaml.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { fileCursors } from './cursors.js';
import { follow } from './github/client.js';

const [url = '', token = '', cursors = 'cursors.json'] = process.argv.slice(2);
const stop = new AbortController();
process.once('SIGTERM', () => stop.abort());

async function connect(): Promise<Client> {
  const client = new Client({ name: 'follow', version: '1' }, { versionNegotiation: { mode: { pin: '2026-07-28' } } });
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: { Authorization: `Bearer ${token}` } } }));
  return client;
}

const events = follow(connect, ['push', 'issues.opened'], {
  arguments: { push: { repo: 'Codertocat/Hello-World' } },
  cursors: fileCursors(cursors),
  signal: stop.signal,
  onGap: ({ name }) => console.log(JSON.stringify({ gap: name })),
  onRetry: ({ name, error, delayMs }) => console.log(JSON.stringify({ retry: name, error: String(error), delayMs })),
});
for await (const event of events) {
  switch (event.name) {
    case 'push':
      console.log(JSON.stringify({ name: event.name, id: event.eventId, what: event.data.ref }));
      break;
    case 'issues.opened':
      console.log(JSON.stringify({ name: event.name, id: event.eventId, what: event.data.title }));
      break;
  }
}
console.log(JSON.stringify({ ended: true }));
