/**
 * The processes of the `torch` learner, and the line to their rank 0. Requests go one after the other, every
 * wait has a deadline, and a quiet line is asked now and then whether all ranks live. Whatever ends the
 * processes ends every request under way, and every later one, with the same error.
 *
 * They are in a process group of their own, so that Ctrl-C reaches lexpo alone, and they end by themselves
 * when lexpo is gone: their standard input is a pipe from here.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { z } from 'zod';
import { messageOf, UserError } from '../../base/errors.ts';
import { type TorchSettings, torchFailure, torchrunArguments } from './torch-launch.ts';
import { decodeMessage, encodeMessage, frameLength, type Message, readBody } from './wire.ts';

export interface TorchProcess {
  /** What answered: the processes by rank, the device's name, PyTorch's version. */
  readonly about: z.infer<typeof helloSchema>;
  /** Sends a request and waits for its answer, at most `deadlineMs`. UserError when there is none. */
  call(request: Message, deadlineMs: number): Promise<Message>;
  /** Ends all processes, by force where asking is not enough. */
  close(): Promise<void>;
}

const helloSchema = z.looseObject({
  ranks: z.array(z.looseObject({ rank: z.number(), pid: z.number(), host: z.string() })),
  device: z.string(),
  torch: z.string(),
});

/** A line this long without a request is asked whether it lives, and has a few times as long to answer. */
const HEARTBEAT_MS = 20_000;
const HEARTBEAT_ANSWER = 6;
/** From asking to end until the next, harder way. */
const GRACE_MS = 3_000;
/** From the end of the line to the end of the processes: torchrun gives its others half a minute, and then says why. */
const CLOSED_MS = 45_000;
const KEPT_LINES = 400;
const PING: Message = { kind: 'ping', body: {}, tensors: new Map() };

/**
 * Starts torchrun and waits until every rank has found the others.
 *
 * @throws UserError for a Python that is absent or lacks packages, for GPUs that are asked for and not there,
 *   and when not all ranks are there within `startDeadlineMs`.
 */
export async function startTorch(
  settings: TorchSettings,
  { heartbeatMs = HEARTBEAT_MS, closedMs = CLOSED_MS }: { heartbeatMs?: number; closedMs?: number } = {},
): Promise<TorchProcess> {
  const folder = mkdtempSync(join(tmpdir(), 'lexpo-'));
  const path = join(folder, 'learner');
  const server = createServer();
  try {
    await listen(server, path);
    const child = launch(settings, path);
    return await connect(child, server, settings, { heartbeatMs, closedMs });
  } finally {
    server.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

function listen(server: Server, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', (error) =>
      reject(new UserError(messageOf(error), path, 'set TMPDIR to a short path that may be written')),
    );
    server.listen(path, resolve);
  });
}

function launch(settings: TorchSettings, socket: string): ChildProcess {
  const env: NodeJS.ProcessEnv = {
    ...process.env,
    LEXPO_SOCKET: socket,
    OMP_NUM_THREADS: String(settings.threads),
    PYTHONUNBUFFERED: '1',
    // Else `-m` looks for modules in the current folder first.
    PYTHONSAFEPATH: '1',
    // Threads that spin while they wait cost everything on a machine with other work: measured six times.
    OMP_WAIT_POLICY: process.env.OMP_WAIT_POLICY ?? 'PASSIVE',
    // The model is a folder; nothing is ever looked up elsewhere.
    HF_HUB_OFFLINE: '1',
    TRANSFORMERS_VERBOSITY: 'error',
  };
  // One machine needs no other interface, and a host name that resolves to nothing is common in containers.
  if (!settings.nodes && process.platform === 'linux') env.GLOO_SOCKET_IFNAME ??= 'lo';
  return spawn(settings.python, torchrunArguments(settings), {
    env,
    stdio: ['pipe', 'pipe', 'pipe'],
    detached: true,
  });
}

interface Waiting {
  kind: string;
  resolve(message: Message): void;
  reject(error: unknown): void;
  timer: NodeJS.Timeout;
}

async function connect(
  child: ChildProcess,
  server: Server,
  settings: TorchSettings,
  { heartbeatMs, closedMs }: { heartbeatMs: number; closedMs: number },
): Promise<TorchProcess> {
  const lines = keepLines(child);
  let dead: unknown = null;
  let ended = false;
  let socket: Socket | null = null;
  let waiting: Waiting | null = null;

  const fail = (error: unknown): void => {
    dead ??= error;
    if (waiting) {
      clearTimeout(waiting.timer);
      waiting.reject(dead);
      waiting = null;
    }
  };
  const exited = new Promise<void>((resolve) => {
    child.once('error', (error: NodeJS.ErrnoException) => {
      const what = error.code === 'ENOENT' ? 'there is no such program' : messageOf(error);
      fail(
        new UserError(what, settings.python, 'set learner.python to a Python with torch and transformers'),
      );
      ended = true;
      resolve();
    });
    // `close`, not `exit`: by then the last lines have been read too.
    child.once('close', (code, signal) => {
      fail(torchFailure(signal ?? `exit code ${code}`, lines, settings.python));
      ended = true;
      resolve();
    });
  });
  child.stdin!.on('error', () => {});

  const kill = async (): Promise<void> => {
    socket?.destroy();
    child.stdin!.destroy();
    for (const name of ['SIGTERM', 'SIGKILL'] as const) {
      if (ended || child.pid === undefined) return;
      try {
        process.kill(-child.pid, name);
      } catch {
        // Gone in this moment: `close` follows.
      }
      await within(exited, GRACE_MS);
    }
  };

  /** The answer to what `send` sends. */
  const answerTo = (kind: string, deadlineMs: number, send: () => void): Promise<Message> =>
    new Promise((resolve, reject) => {
      if (dead) return reject(dead);
      const timer = setTimeout(() => {
        const hint = 'look for a stopped or overloaded process, or raise learner.callDeadlineMs';
        fail(new UserError(`no answer to ${kind} within ${deadlineMs / 1000} s`, 'the torch learner', hint));
        void kill();
      }, deadlineMs);
      waiting = { kind, resolve, reject, timer };
      send();
    });
  const arrived = (message: Message): void => {
    if (!waiting) return;
    clearTimeout(waiting.timer);
    const { resolve } = waiting;
    waiting = null;
    resolve(message);
  };

  const hello = answerTo('its start', settings.startDeadlineMs, () => {
    server.once('connection', (connection) => {
      socket = connection;
      connection.on('error', () => {});
      connection.once('close', () => {
        void within(exited, closedMs).then(() => {
          if (ended) return;
          fail(torchFailure('a closed line and no exit', lines, settings.python));
          void kill();
        });
      });
      const refuse = (error: unknown): void => {
        fail(error);
        void kill();
      };
      readFrames(connection, (bytes) => arrived(decodeMessage(bytes)), refuse);
    });
  });
  let about: z.infer<typeof helloSchema>;
  try {
    about = readBody(helloSchema, (await hello).body);
  } catch (error) {
    await kill();
    throw error;
  }

  let queue: Promise<unknown> = Promise.resolve();
  let lastUse = performance.now();
  let open = true;
  const call = (request: Message, deadlineMs: number): Promise<Message> => {
    const result = queue.then(() =>
      answerTo(request === PING ? 'its heartbeat' : request.kind, deadlineMs, () => {
        const parts = encodeMessage(request);
        const length = Buffer.alloc(8);
        length.writeBigUInt64LE(BigInt(parts.reduce((sum, part) => sum + part.length, 0)));
        for (const part of [length, ...parts]) socket!.write(part);
      }).finally(() => {
        lastUse = performance.now();
      }),
    );
    queue = result.catch(() => {});
    return result;
  };
  const heartbeat = setInterval(() => {
    if (!waiting && performance.now() - lastUse >= heartbeatMs)
      void call(PING, heartbeatMs * HEARTBEAT_ANSWER).catch(() => {});
  }, heartbeatMs / 4);

  return {
    about,
    call,
    async close() {
      if (!open) return;
      open = false;
      clearInterval(heartbeat);
      // The end of the line is the request to end; what is under way has been answered, or never will be.
      fail(new Error('the torch learner is closed'));
      socket!.end();
      await within(exited, GRACE_MS);
      await kill();
    },
  };
}

/** Waits for `event`, at most `ms`. */
async function within(event: Promise<void>, ms: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  await Promise.race([event, new Promise<void>((resolve) => (timer = setTimeout(resolve, ms)))]);
  clearTimeout(timer);
}

/** The last lines of what a process writes, to both of its outputs. */
function keepLines(child: ChildProcess): string[] {
  const lines: string[] = [];
  for (const stream of [child.stdout!, child.stderr!]) {
    let rest = '';
    stream.setEncoding('utf8');
    stream.on('data', (text: string) => {
      const parts = (rest + text).split('\n');
      rest = parts.pop()!;
      lines.push(...parts);
      if (lines.length > KEPT_LINES) lines.splice(0, lines.length - KEPT_LINES);
    });
    stream.on('end', () => lines.push(rest));
  }
  return lines;
}

/**
 * Calls `onFrame` with each frame's bytes: a little-endian u64 length, then so many bytes. After what is no
 * frame, or what `onFrame` throws, nothing more is read.
 */
function readFrames(
  socket: Socket,
  onFrame: (bytes: Uint8Array) => void,
  onError: (error: unknown) => void,
): void {
  let chunks: Buffer[] = [];
  let held = 0;
  const take = (chunk: Buffer): void => {
    chunks.push(chunk);
    held += chunk.length;
    while (held >= 8) {
      if (chunks[0]!.length < 8) chunks = [Buffer.concat(chunks)];
      const length = frameLength(chunks[0]!);
      if (held < 8 + length) return;
      const all = Buffer.concat(chunks);
      chunks = [all.subarray(8 + length)];
      held -= 8 + length;
      onFrame(all.subarray(8, 8 + length));
    }
  };
  const onData = (chunk: Buffer): void => {
    try {
      take(chunk);
    } catch (error) {
      socket.off('data', onData);
      onError(error);
    }
  };
  socket.on('data', onData);
}
