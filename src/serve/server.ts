/** The embedded policy server: OpenAI-protocol completions over the engine, LoRA adapters at run time. */
import { existsSync, realpathSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { messageOf, UserError } from '../base/errors.ts';
import { version } from '../base/version.ts';
import { readDecoderConfig } from '../engine/model-config.ts';
import { type ChatTemplate, loadChatTemplate } from '../rollout/chat-template.ts';
import { loadTokenizer } from '../rollout/tokenizer.ts';
import { createAdapterRegistry } from './adapter-registry.ts';
import { createDetokenizer } from './answer.ts';
import { ApiError } from './api-error.ts';
import { startEngine } from './engine-client.ts';
import { checkKey, checkLocalHost, LOOPBACK, readJsonBody, sendAnswer, sendError } from './http.ts';
import type { EngineLimits, EngineStats } from './protocol.ts';
import { createRoutes, type Route } from './routes.ts';

export interface ServerOptions {
  /** A Hugging Face model folder. */
  modelFolder: string;
  /** Adapters are read only below this folder, which must exist. */
  adapterRoot: string;
  /** Default 127.0.0.1; anything but loopback needs `apiKey`. */
  host?: string;
  /** Default 0: any free port. */
  port?: number;
  apiKey?: string | undefined;
  /** The id under which the base model is listed and asked for; default: `modelFolder` as given. */
  servedModelName?: string;
  /** Threads of the engine; default 2. */
  threads?: number;
  /** Default 512. */
  maxLoraRank?: number;
  /** Adapters loaded at once; default 16. */
  maxAdapters?: number;
  /** Samples of all requests under way, the waiting ones included; more get 429. Default 4096. */
  maxQueued?: number;
  /** Default 16 MiB. */
  maxBodyBytes?: number;
  /** Default: silent. */
  log?: (line: string) => void;
  /** Where the engine thread finds `openModel`; tests put a small model here. */
  engineModule?: URL;
}

export interface PolicyServer {
  /** `http://host:port`, without `/v1`. */
  url: string;
  port: number;
  stats(): Promise<EngineStats>;
  /** Refuses new requests, fails the ones under way, stops the engine thread. */
  close(): Promise<void>;
}

/** Open without a key: they tell nothing but whether the server lives. */
const PUBLIC = new Set(['GET /health', 'GET /ping']);
const MIB = 2 ** 20;
/** Samples (prompts × n) of one request. */
const MAX_SAMPLES = 1024;
const ENGINE_LIMITS: Omit<EngineLimits, 'maxLoraRank'> = {
  maxRows: 256,
  cacheBytes: 1024 * MIB,
  promptCacheBytes: 64 * MIB,
  prefillTokens: 8192,
};

/**
 * Starts the server; resolves when it answers. A taken port, a model that cannot be read, a missing
 * adapter folder, and an open bind without a key are UserErrors.
 */
export async function startServer(options: ServerOptions): Promise<PolicyServer> {
  const { modelFolder, adapterRoot, host = '127.0.0.1', port = 0, apiKey, log = () => {} } = options;
  if (!LOOPBACK.has(host) && !apiKey) {
    throw new UserError(`binding to ${host} needs an API key`, 'serve', 'Set one, or bind to 127.0.0.1.');
  }
  if (!existsSync(adapterRoot)) throw new UserError('no such folder', adapterRoot, 'Create it first.');
  const config = readDecoderConfig(modelFolder);
  const tokenizer = loadTokenizer(modelFolder);
  const maxModelLen = config.maxPositions;
  const seconds = (): number => Math.floor(Date.now() / 1000);
  const modelId = options.servedModelName ?? modelFolder;

  let routes: Map<string, Route> | null = null;
  const maxBodyBytes = options.maxBodyBytes ?? 16 * MIB;
  const server = createServer((request, response) => {
    void respond(request, response, routes, { apiKey, maxBodyBytes, log });
  });
  // Listening comes first: a taken port is found before the model is loaded.
  const bound = await listen(server, host, port);
  const limits = { ...ENGINE_LIMITS, maxLoraRank: options.maxLoraRank ?? 512 };
  const engineModule = (options.engineModule ?? new URL(engineModuleName(), import.meta.url)).href;
  const init = { engineModule, modelFolder, threads: options.threads ?? 2, limits };
  const engine = await startEngine(init, log).catch((error) => {
    server.close();
    throw error;
  });
  const adapters = createAdapterRegistry({
    engine,
    root: adapterRoot,
    baseModel: modelId,
    maxAdapters: options.maxAdapters ?? 16,
    now: seconds,
  });
  routes = createRoutes({
    engine,
    adapters,
    tokenizer,
    chatTemplate: chatTemplateOf(modelFolder, log),
    detokenizer: createDetokenizer(tokenizer),
    base: { id: modelId, root: realpathSync(modelFolder), maxModelLen, created: seconds() },
    eosIds: config.eosTokenIds,
    limits: {
      maxModelLen,
      vocabSize: config.vocabSize,
      maxSamples: MAX_SAMPLES,
      maxQueued: options.maxQueued ?? 4096,
    },
    version: version(),
    now: seconds,
    log,
  });
  const url = `http://${host.includes(':') ? `[${host}]` : host}:${bound}`;
  log(`serving ${modelId} at ${url}`);
  return {
    url,
    port: bound,
    stats: () => engine.stats(),
    async close() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      await engine.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

interface RespondOptions {
  apiKey: string | undefined;
  maxBodyBytes: number;
  log: (line: string) => void;
}

/** One request, one answer. What a route throws that is no ApiError is a fault of ours: 500, and logged. */
async function respond(
  request: IncomingMessage,
  response: ServerResponse,
  routes: Map<string, Route> | null,
  { apiKey, maxBodyBytes, log }: RespondOptions,
): Promise<void> {
  const gone = new AbortController();
  response.once('close', () => {
    if (!response.writableFinished) gone.abort();
  });
  try {
    const path = (request.url ?? '/').split('?')[0]!;
    if (!apiKey) checkLocalHost(request);
    else if (!PUBLIC.has(`${request.method} ${path}`)) checkKey(request, apiKey);
    if (!routes) throw new ApiError(503, 'ServiceUnavailable', 'the model is being loaded');
    const route = findRoute(routes, request.method ?? 'GET', path);
    const body = request.method === 'POST' ? await readJsonBody(request, maxBodyBytes) : null;
    sendAnswer(response, await route(body, gone.signal));
  } catch (error) {
    if (gone.signal.aborted) return;
    const known = error instanceof ApiError;
    if (!known) log(`${request.method} ${request.url}: ${error instanceof Error ? error.stack : error}`);
    sendError(response, known ? error : new ApiError(500, 'InternalServerError', messageOf(error)));
  }
}

function findRoute(routes: Map<string, Route>, method: string, path: string): Route {
  const route = routes.get(`${method} ${path}`);
  if (route) return route;
  if (routes.has(`GET ${path}`) || routes.has(`POST ${path}`)) {
    throw new ApiError(405, 'MethodNotAllowed', `${method} is not allowed on ${path}`);
  }
  throw new ApiError(404, 'NotFoundError', `there is no route ${method} ${path}`);
}

function listen(server: Server, host: string, port: number): Promise<number> {
  // Idle connections outlive a client's pool, so that none is closed just as it is used again.
  server.keepAliveTimeout = 120_000;
  return new Promise((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      const taken = error.code === 'EADDRINUSE';
      const what = taken ? `port ${port} is taken` : `cannot listen: ${error.message}`;
      reject(
        new UserError(
          what,
          `${host}:${port}`,
          taken ? 'Choose another port, or 0 for any.' : 'Choose another host or port.',
        ),
      );
    });
    server.listen(port, host, () => {
      const address = server.address();
      resolve(typeof address === 'object' && address ? address.port : port);
    });
  });
}

/** A model without a template serves completions all the same. */
function chatTemplateOf(folder: string, log: (line: string) => void): ChatTemplate | null {
  try {
    return loadChatTemplate(folder);
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    log(`no chat template: ${error.message}`);
    return null;
  }
}

/** From sources the module is TypeScript, in the built package JavaScript. */
function engineModuleName(): string {
  return import.meta.url.endsWith('.ts') ? './engine-module.ts' : './engine-module.js';
}
