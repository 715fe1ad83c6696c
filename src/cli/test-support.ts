/** For the tests of the command line. */
import { runCli, type Streams } from './main.ts';

/** Streams that keep what is written to them. */
export function captureStreams(): { streams: Streams; said: { out: string; err: string } } {
  const said = { out: '', err: '' };
  const streams = {
    stdout: { write: (text: string) => (said.out += text) },
    stderr: { write: (text: string) => (said.err += text) },
  } as unknown as Streams;
  return { streams, said };
}

/** Runs a command line and gives what it wrote, escape sequences and all. */
export async function lexpo(...args: string[]): Promise<{ code: number; out: string; err: string }> {
  const { streams, said } = captureStreams();
  const code = await runCli(args, streams);
  return { code, ...said };
}
