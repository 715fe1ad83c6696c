/**
 * A policy endpoint for tests that is honest by default and wrong on demand. It speaks vLLM's protocol over a
 * fake model whose every log-probability depends on the loaded adapter's tensors, so that a stale adapter, or
 * one that does nothing, shows in the numbers.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { errorReply, type Fault, htmlReply, tell, UNAPPLIED } from './faults.ts';
import { answerHonestly, type HonestOptions, type Loaded, routeOf, type State } from './honest.ts';
import { fakeModel } from './model.ts';
import type { Reply } from './reply.ts';
import { playScript, type Route, type Rule } from './script.ts';

export type { Fault } from './faults.ts';
export { adapterShift, type FakeModel, fakeModel, promptLogprobs } from './model.ts';
export type { Route, Rule } from './script.ts';

export interface HostileOptions extends Partial<HonestOptions> {
  /** Of the faults that come with a probability. Default 1. */
  seed?: number;
  /** Default 0: any free port. */
  port?: number;
}

/** One request as it came. `applied`: the honest part did what was asked. */
export interface Seen {
  route: Route;
  body: Record<string, unknown>;
  fault: Fault | null;
  applied: boolean;
}

export interface HostileEndpoint {
  /** `http://127.0.0.1:port`, without `/v1`; the same after a restart. */
  url: string;
  seen: Seen[];
  /** What is loaded, in the order of loading, with the tensors that truly answer. */
  loaded(): readonly Loaded[];
  /** Another script, its counts from zero. */
  play(script: readonly Rule[]): void;
  /** The process is gone: connections break, new ones are refused. */
  stop(): Promise<void>;
  /** Gone and back at the same address, without its adapters. */
  restart(): Promise<void>;
  close(): Promise<void>;
}

/** Starts one; defaults: base model `base`, 512 tokens, rank 16, raw log-probabilities, the fake model. */
export async function startHostileEndpoint(
  script: readonly Rule[] = [],
  { seed = 1, port = 0, ...given }: HostileOptions = {},
): Promise<HostileEndpoint> {
  const options: HonestOptions = {
    model: fakeModel,
    baseModel: 'base',
    maxModelLen: 512,
    maxLoraRank: 16,
    logprobs: 'raw',
    ...given,
  };
  const state: State = { options, loaded: [], requests: 0 };
  const seen: Seen[] = [];
  let faultOf = playScript(script, seed);
  let server: Server | null = null;

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await readBody(request);
    const path = (request.url ?? '/').split('?')[0]!;
    const route = routeOf(request.method ?? 'GET', path, body ?? {});
    const fault = faultOf(route);
    const entry: Seen = { route, body: body ?? {}, fault, applied: false };
    seen.push(entry);
    if (fault?.kind === 'slow') await sleep(fault.ms, undefined, { ref: false });
    if (fault?.kind === 'crash') state.loaded = [];
    if (fault && UNAPPLIED.includes(fault.kind)) {
      misbehave(response, fault, null);
      return;
    }
    const invalid = errorReply(400, 'nested', '1 validation error: JSON decode error');
    const before = state.loaded.length;
    const reply =
      body === null ? invalid : answerHonestly(state, route, body, answeringWeights(state, fault, body));
    entry.applied = reply.status === 200;
    if (fault && route === 'load' && state.loaded.length > before) distort(state, fault);
    misbehave(response, fault, reply);
  }

  async function listen(at: number): Promise<number> {
    const next = createServer((request, response) => {
      handle(request, response).catch(() => request.socket.destroy());
    });
    server = next;
    await new Promise<void>((resolve, reject) => {
      next.once('error', reject);
      next.listen(at, '127.0.0.1', resolve);
    });
    return (next.address() as AddressInfo).port;
  }

  async function stop(): Promise<void> {
    const old = server;
    server = null;
    if (!old) return;
    const closed = new Promise<void>((resolve) => old.close(() => resolve()));
    old.closeAllConnections();
    await closed;
  }

  const bound = await listen(port);
  return {
    url: `http://127.0.0.1:${bound}`,
    seen,
    loaded: () => state.loaded,
    play: (next) => {
      faultOf = playScript(next, seed);
    },
    stop,
    async restart() {
      await stop();
      state.loaded = [];
      await listen(bound);
    },
    close: stop,
  };
}

/** Null when it is not JSON. */
async function readBody(request: IncomingMessage): Promise<Record<string, unknown> | null> {
  let text = '';
  for await (const chunk of request) text += chunk;
  if (text === '') return {};
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    return null;
  }
}

/** The adapter that was loaded before the one named, or before the last. */
function previous(state: State, name: unknown): Loaded | undefined {
  const at = state.loaded.findIndex((one) => one.name === name);
  return state.loaded[(at < 0 ? state.loaded.length : at) - 1];
}

function answeringWeights(state: State, fault: Fault | null, body: Record<string, unknown>) {
  if (fault?.kind === 'answer-as-base') return { adapter: null };
  if (fault?.kind === 'answer-as-previous') return { adapter: previous(state, body.model)?.adapter ?? null };
  return undefined;
}

/** What a load that said 200 truly did. */
function distort(state: State, fault: Fault): void {
  const last = state.loaded.at(-1)!;
  switch (fault.kind) {
    case 'load-ignored':
      state.loaded.pop();
      break;
    case 'load-unlisted':
      last.listed = false;
      break;
    case 'load-wrong-root':
      last.root = `${last.root}-elsewhere`;
      break;
    case 'load-as-base':
      last.adapter = null;
      break;
    case 'load-as-previous':
      last.adapter = previous(state, last.name)?.adapter ?? null;
      break;
    default:
      break;
  }
}

/** Sends `reply` (null: the request was not applied) as the fault has it. */
function misbehave(response: ServerResponse, fault: Fault | null, reply: Reply | null): void {
  switch (fault?.kind) {
    case 'status':
      send(response, errorReply(fault.status, fault.shape ?? 'nested', fault.message ?? 'injected fault'));
      break;
    case 'html':
      send(response, htmlReply);
      break;
    case 'empty':
      send(response, { status: 200, type: 'json-text', body: '' });
      break;
    case 'truncated-json': {
      const text = textOf(reply!);
      send(response, { ...reply!, type: 'json-text', body: text.slice(0, text.length / 2) });
      break;
    }
    case 'wrong-length':
      half(response, reply!, () => response.socket?.end());
      break;
    case 'lie':
      send(response, tell(fault.lie, reply!));
      break;
    case 'hang':
      break;
    case 'hang-mid-body':
      half(response, reply!, () => {});
      break;
    case 'reset-before':
    case 'reset-after':
    case 'crash':
      response.socket?.resetAndDestroy();
      break;
    case 'reset-mid-body':
      half(response, reply!, () => response.socket?.resetAndDestroy());
      break;
    default:
      send(response, reply!);
  }
}

const MEDIA = {
  json: 'application/json',
  'json-text': 'application/json',
  text: 'text/plain',
  html: 'text/html',
};
const textOf = ({ type, body }: Reply): string => (type === 'json' ? JSON.stringify(body) : String(body));

function send(response: ServerResponse, reply: Reply): void {
  if (response.destroyed) return;
  response.writeHead(reply.status, { 'content-type': MEDIA[reply.type] });
  response.end(textOf(reply));
}

/** Headers for the whole answer and the first half of it; `then` when that has been handed over. */
function half(response: ServerResponse, reply: Reply, then: () => void): void {
  const whole = Buffer.from(textOf(reply));
  response.writeHead(reply.status, { 'content-type': MEDIA[reply.type], 'content-length': whole.length + 1 });
  // The reset would overtake bytes that have not left yet.
  response.write(whole.subarray(0, whole.length / 2), () => setTimeout(then, 5));
}
