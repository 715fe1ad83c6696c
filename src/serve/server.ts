/** The embedded policy server: OpenAI-protocol completions over the engine, LoRA adapters at run time. */

export interface ServerOptions {
  /** A Hugging Face model folder. */
  modelFolder: string;
  /** Adapters are read only below this folder. */
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
  maxLoraRank?: number;
  maxAdapters?: number;
  /** Default: silent. */
  log?: (line: string) => void;
}

export interface PolicyServer {
  /** `http://host:port`, without `/v1`. */
  url: string;
  /** Ends within a few seconds: refuses new requests, fails the ones under way, stops the worker. */
  close(): Promise<void>;
}

/** Starts the server. A taken port, a missing model or an open bind without a key is a UserError. */
export async function startServer(_options: ServerOptions): Promise<PolicyServer> {
  throw new Error('not yet');
}
