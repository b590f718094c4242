// An agent with the official SDK that starts a bridge: node agent.mjs COMMAND ARGS…; it prints the ids of the events
// that it waits for, one a line, until its standard input ends.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';

const [command, ...args] = process.argv.slice(2);
const transport = new StdioClientTransport({ command, args, stderr: 'inherit' });
const client = new Client({ name: 'agent', version: '1' });
await client.connect(transport);
const tools = (await client.listTools()).tools.map(t => t.name).sort();
console.log('tools', tools.join(' '));
let more = true;
process.stdin.on('end', () => { more = false; }).resume();
let told = false;
while (more) {
  if (!told) {
    const state = await client.callTool({ name: 'events_subscriptions', arguments: {} });
    told = JSON.parse(state.content[0].text).subscriptions.every(s => s.state === 'active');
    if (told) console.log('active');
    continue;
  }
  const answer = await client.callTool({ name: 'events_wait', arguments: { waitSeconds: 1 } }, undefined, { timeout: 60000 });
  const { batches } = JSON.parse(answer.content[0].text);
  for (const b of batches) for (const e of b.events) console.log('event', e.eventId);
}
await client.close();
console.log('closed');
