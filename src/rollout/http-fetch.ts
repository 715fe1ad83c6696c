/**
 * `fetch` over node:http. The built-in one gives up on an answer whose headers take more than 300 seconds
 * and cannot be told otherwise without another package; here the caller's signal is the only deadline.
 * Left out: redirects, streaming (an answer is read whole), request bodies that are not strings.
 */
import http, { type IncomingMessage } from 'node:http';
import https from 'node:https';

/** The answer had begun when the connection broke: the request was carried out, at least in part. */
export class BrokenAnswer extends Error {
  override name = 'BrokenAnswer';
}

/** The answer goes on and on: no answer to any request of ours is so long. */
export class EndlessAnswer extends Error {
  override name = 'EndlessAnswer';
}

/**
 * An answer may hold so many bytes: 256 MiB. The longest that is wanted, prompt log-probabilities of a full context,
 * has a few dozen; without a bound a broken server would fill the memory before any deadline.
 */
const MAX_BYTES = 256 * 1024 * 1024;

/**
 * Keeps connections open for the next call; at most `maxSockets` at once per host. An answer of more than `maxBytes`
 * is an `EndlessAnswer`.
 */
export function createHttpFetch(maxSockets: number, maxBytes = MAX_BYTES): typeof fetch {
  const options = { keepAlive: true, maxSockets };
  const clients = {
    'http:': { request: http.request, agent: new http.Agent(options) },
    'https:': { request: https.request, agent: new https.Agent(options) },
  };
  return (input, init = {}) =>
    new Promise((resolve, reject) => {
      const url = new URL(input instanceof Request ? input.url : input);
      const client = clients[url.protocol as keyof typeof clients];
      if (!client) throw new TypeError(`${url.protocol} is not supported`);
      if (init.body != null && typeof init.body !== 'string')
        throw new TypeError('the body must be a string');
      const request = client.request(url, {
        method: init.method ?? 'GET',
        headers: Object.fromEntries(new Headers(init.headers)),
        agent: client.agent,
        ...(init.signal ? { signal: init.signal } : {}),
      });
      request.once('error', reject);
      request.once('response', (answer) => collect(answer, maxBytes).then(resolve, reject));
      request.end(init.body ?? undefined);
    });
}

async function collect(answer: IncomingMessage, maxBytes: number): Promise<Response> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const chunk of answer as AsyncIterable<Buffer>) {
      bytes += chunk.length;
      // Thrown out of the loop, it closes the connection.
      if (bytes > maxBytes) throw new EndlessAnswer(`the answer has more than ${maxBytes} bytes`);
      chunks.push(chunk);
    }
  } catch (cause) {
    if (cause instanceof EndlessAnswer) throw cause;
    throw new BrokenAnswer('the connection broke in the middle of the answer', { cause });
  }
  const status = answer.statusCode!;
  const headers = new Headers();
  for (const [name, value] of Object.entries(answer.headers)) {
    if (value !== undefined) headers.set(name, String(value));
  }
  const empty = status === 204 || status === 205 || status === 304;
  const body = Buffer.concat(chunks);
  return new Response(empty ? null : status >= 400 ? errorBody(body) : body, { status, headers });
}

/**
 * Servers tell errors in three shapes: `{error: {message, …}}`, the same without `error` around it (older
 * vLLM), and `{detail}` (its web framework). The SDK reads the first only, so the others become it.
 */
function errorBody(body: Buffer): Buffer | string {
  let told: unknown;
  try {
    told = JSON.parse(body.toString());
  } catch {
    return body;
  }
  if (typeof told !== 'object' || told === null) return body;
  const { error, message, detail, ...rest } = told as Record<string, unknown>;
  if (typeof error === 'object' && error !== null) return body;
  const what = message ?? detail ?? error;
  if (what === undefined) return body;
  const text = typeof what === 'string' ? what : JSON.stringify(what);
  return JSON.stringify({ error: { ...rest, message: text } });
}
