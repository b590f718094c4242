
import { Webhook } from 'standardwebhooks';
import { eventNames, type Occurrence } from './events.js';

/** What the headers of a delivery say. */
export interface Delivery {
  /** The webhook-id: the same in every attempt. Servers use the event's id for it, or one of their own. */
  messageId: string;
  subscriptionId: string | null;
}

/** Occurrences are lost: delivery goes on behind the cursor. */
export interface Gap {
  type: 'gap';
  cursor: string | null;
}

/** The subscription is over. */
export interface Terminated {
  type: 'terminated';
  error: { code: number; message: string; data?: unknown };
}

export interface ReceiverOptions {
  /** The secrets of the subscription, whsec_ and base64; two while one takes the other's place. */
  secrets: (subscriptionId: string | null) => readonly string[] | Promise<readonly string[]>;
  /**
   * Resolves once the event is kept; a failure makes the server try again. The same event may come twice: remember
   * its eventId.
   */
  onEvent: (event: Occurrence, delivery: Delivery) => Promise<void>;
  onGap?: (gap: Gap, delivery: Delivery) => Promise<void>;
  onTerminated?: (end: Terminated, delivery: Delivery) => Promise<void>;
  /** Is told why a delivery was refused or failed. */
  onError?: (error: unknown) => void;
}

const maxBody = 256 * 1024;

/** Receives webhooks as a handler of the Fetch API: it verifies the signature and answers the server's challenge. */
export function receiver(options: ReceiverOptions): (request: Request) => Promise<Response> {
  const known: readonly string[] = eventNames;
  return async (request) => {
    if (request.method !== 'POST') return new Response(null, { status: 405, headers: { Allow: 'POST' } });
    const body = await read(request);
    if (body === undefined) return new Response(null, { status: 413 });
    const delivery = { messageId: request.headers.get('webhook-id') ?? '', subscriptionId: request.headers.get('x-mcp-subscription-id') };
    let message: Message;
    try {
      message = verify(body, request.headers, await options.secrets(delivery.subscriptionId)) as Message;
    } catch (error) {
      options.onError?.(error);
      return new Response(null, { status: 401 });
    }
    try {
      if (!('type' in message)) {
        if (!known.includes(message.name)) throw new Error(`no event type is called ${message.name}`);
        await options.onEvent(message, delivery);
      } else if (message.type === 'verification') return Response.json({ challenge: message.challenge });
      else if (message.type === 'gap') await options.onGap?.(message, delivery);
      else await options.onTerminated?.(message, delivery);
    } catch (error) {
      options.onError?.(error);
      return new Response(null, { status: 500 });
    }
    return new Response(null, { status: 204 });
  };
}

type Message = Occurrence | { type: 'verification'; challenge: string } | Gap | Terminated;

/** Returns the body that one of the secrets has signed. */
function verify(body: string, headers: Headers, secrets: readonly string[]): unknown {
  let failure: unknown = new Error('there is no secret for the subscription');
  for (const secret of secrets) {
    try {
      return new Webhook(secret).verify(body, Object.fromEntries(headers));
    } catch (error) {
      failure = error;
    }
  }
  throw failure;
}

/** The body as text, undefined where it is larger than a server may send. */
async function read(request: Request): Promise<string | undefined> {
  const decoder = new TextDecoder();
  const reader = request.body?.getReader();
  let text = '';
  let size = 0;
  for (;;) {
    const next = await reader?.read();
    if (!next || next.done) return text + decoder.decode();
    size += next.value.byteLength;
    if (size > maxBody) {
      await reader?.cancel();
      return undefined;
    }
    text += decoder.decode(next.value, { stream: true });
  }
}
