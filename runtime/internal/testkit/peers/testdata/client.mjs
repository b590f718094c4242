// A client of another make: node client.mjs 1|2|2-legacy|ai-sdk URL. It prints what it got as one JSON object.
import * as z from 'zod';

const [make, url] = process.argv.slice(2);
const info = { name: 'peer', version: '1' };
const loose = z.looseObject({});

// A client of either SDK asks for events by requests of its own and calls the tool.
async function ask(client, request) {
  const list = await request('events/list', {});
  const first = await request('events/poll', { name: 'tick', arguments: {}, cursor: null });
  const tools = await client.listTools();
  const wait = (args) => client.callTool({ name: 'events_wait', arguments: args });
  const begun = await wait({ events: [{ name: 'tick' }], waitSeconds: 0 });
  await fetch(new URL('/emit', url), { method: 'POST' });
  const polled = await request('events/poll', { name: 'tick', arguments: {}, cursor: first.cursor });
  const waited = await wait({ events: [{ name: 'tick' }], cursor: begun.structuredContent.cursor, waitSeconds: 5 });
  let refusal;
  try { await request('events/poll', { name: 'unknown', cursor: null }); } catch (e) { refusal = e.code; }
  if (tools.tools.some((t) => t.name === 'theirs')) await client.callTool({ name: 'theirs', arguments: {} });
  return { list, polled, tools: tools.tools.map((t) => t.name), waited: waited.structuredContent, refusal };
}

const makes = {
  async 1() {
    const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
    const { StreamableHTTPClientTransport } = await import('@modelcontextprotocol/sdk/client/streamableHttp.js');
    const client = new Client(info);
    await client.connect(new StreamableHTTPClientTransport(new URL(url)));
    const got = await ask(client, (method, params) => client.request({ method, params }, loose));
    await client.close();
    return got;
  },
  async 2(options = { versionNegotiation: { mode: { pin: '2026-07-28' } } }) {
    const { Client, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client');
    const client = new Client(info, options);
    await client.connect(new StreamableHTTPClientTransport(new URL(url)));
    const got = await ask(client, (method, params) => client.request({ method, params }, loose));
    await client.close();
    return got;
  },
  '2-legacy': () => makes[2]({ versionNegotiation: { mode: 'legacy' } }),
  async 'ai-sdk'() {
    const { createMCPClient } = await import('@ai-sdk/mcp');
    const client = await createMCPClient({ transport: { type: 'http', url } });
    const tools = await client.tools();
    const wait = (args) => tools.events_wait.execute(args, { toolCallId: '1', messages: [] });
    const begun = await wait({ events: [{ name: 'tick' }], waitSeconds: 0 });
    await fetch(new URL('/emit', url), { method: 'POST' });
    const waited = await wait({ events: [{ name: 'tick' }], cursor: begun.structuredContent.cursor, waitSeconds: 5 });
    await client.close();
    return { tools: Object.keys(tools), waited: waited.structuredContent };
  },
};
console.log(JSON.stringify(await makes[make]()));
