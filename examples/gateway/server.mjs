// A notes server with the TypeScript SDK for MCP: sessions, and answers as event streams. It does not know MCP Events. Each
// note emits the event note.added through the gateway in front of it: see docs/gateway.md.
//
//   EMIT_TOKEN=… node server.mjs [ADDRESS [GATEWAY]]
//
// With MCP_TOKEN in the environment, it refuses callers without that token.
import { randomUUID } from 'node:crypto';
import express from 'express';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { isInitializeRequest } from '@modelcontextprotocol/sdk/types.js';
import { z } from 'zod';

const [address = '127.0.0.1:3000', gateway = '127.0.0.1:8080'] = process.argv.slice(2);
const token = process.env.MCP_TOKEN;

// emit resolves once the event is in the log of the gateway. After a failure, call it again with the same id.
async function emit(name, id, payload) {
  const response = await fetch(`http://${gateway}/events/${name}?id=${encodeURIComponent(id)}`, {
    method: 'POST', headers: { Authorization: `Bearer ${process.env.EMIT_TOKEN}` }, body: JSON.stringify(payload),
  });
  if (!response.ok) throw new Error(`${name}: ${response.status} ${await response.text()}`);
}

async function addNote({ author, text }) {
  const id = randomUUID();
  // A real server stores the note here. A failure to emit does not undo that, so it is only logged.
  await emit('note.added', `note-${id}`, { id, author: { name: author }, text, addedAt: new Date().toISOString() }).catch(console.error);
  return `added ${id}`;
}

function newServer() {
  const server = new McpServer({ name: 'notes', version: '1.0.0' });
  server.registerTool('add_note', { description: 'Adds a note.', inputSchema: { author: z.string(), text: z.string() } },
    async (note) => ({ content: [{ type: 'text', text: await addNote(note) }] }));
  return server;
}

const app = express();
app.use(express.json());
app.use((req, res, next) => {
  if (!token || req.headers.authorization === `Bearer ${token}`) return next();
  res.set('WWW-Authenticate', 'Bearer').status(401).json({ error: 'invalid_token' });
});
app.post('/notes', async (req, res) => res.send(`${await addNote(req.body)}\n`));

const transports = new Map(); // by session
app.all('/mcp', async (req, res) => {
  const id = req.headers['mcp-session-id'];
  let transport = transports.get(id);
  if (!transport) {
    if (id || !isInitializeRequest(req.body)) {
      res.status(id ? 404 : 400).json({ jsonrpc: '2.0', error: { code: -32000, message: id ? 'Session not found' : 'No session' }, id: null });
      return;
    }
    transport = new StreamableHTTPServerTransport({ sessionIdGenerator: randomUUID, onsessioninitialized: (session) => transports.set(session, transport) });
    transport.onclose = () => transports.delete(transport.sessionId);
    await newServer().connect(transport);
  }
  await transport.handleRequest(req, res, req.body);
});
const [host, port] = address.split(':');
app.listen(Number(port), host, () => console.log(`MCP on http://${address}/mcp`));
