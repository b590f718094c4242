// A server of events for tests of client.ts, in memory: a test answers each request by itself.
import { Client, InMemoryTransport } from '@modelcontextprotocol/client';

export interface Asked {
  id: string | number;
  method: string;
  params: { name?: string; cursor?: string | null; arguments?: unknown };
}

/** One connection of a client. */
export class Wire {
  readonly #end: InMemoryTransport;
  readonly #asked: Asked[] = [];
  #wake = () => {};
  readonly client = new Client({ name: 'test', version: '1' });
  private readonly theirs: InMemoryTransport;

  private constructor() {
    [this.theirs, this.#end] = InMemoryTransport.createLinkedPair();
    this.#end.onmessage = (message) => {
      if (!('id' in message) || !('method' in message)) return;
      if (message.method === 'initialize') {
        return this.answer(message, { protocolVersion: '2025-11-25', capabilities: {}, serverInfo: { name: 'test', version: '1' } });
      }
      this.#asked.push(message as unknown as Asked);
      this.#wake();
    };
  }

  static async connect(): Promise<Wire> {
    const wire = new Wire();
    await wire.#end.start();
    await wire.client.connect(wire.theirs);
    return wire;
  }

  /** Returns the next request; one that has come before is kept. */
  async asked(method: string, name?: string): Promise<Asked> {
    for (;;) {
      const at = this.#asked.findIndex((a) => a.method === method && (name === undefined || a.params.name === name));
      if (at >= 0) return this.#asked.splice(at, 1)[0] as Asked;
      await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }

  answer({ id }: { id: string | number }, result: Record<string, unknown>): void {
    void this.#end.send({ jsonrpc: '2.0', id, result });
  }

  refuse({ id }: Asked, code: number, data?: unknown): void {
    void this.#end.send({ jsonrpc: '2.0', id, error: { code, message: 'refused', ...(data !== undefined && { data }) } });
  }

  /** Sends a notification of a stream; anonymous leaves out which. */
  notify(stream: Asked, kind: string, params: Record<string, unknown>, anonymous = false): void {
    const _meta = { 'io.modelcontextprotocol/subscriptionId': stream.id };
    void this.#end.send({ jsonrpc: '2.0', method: `notifications/events/${kind}`, params: { ...params, ...(!anonymous && { _meta }) } });
  }

  event(stream: Asked, id: string, cursor: string | null, anonymous = false): void {
    this.notify(stream, 'event', { eventId: id, name: stream.params.name, timestamp: '2026-01-01T00:00:00Z', data: {}, cursor }, anonymous);
  }

  close(): Promise<void> {
    return this.#end.close();
  }
}
