/** SHA-256, in hex. */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';

/** Of bytes, or of a text as UTF-8. */
export const sha256 = (data: string | Uint8Array): string => createHash('sha256').update(data).digest('hex');

/** Of a file's bytes, which are never in memory all at once. */
export async function sha256OfFile(path: string): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of createReadStream(path)) hash.update(chunk as Buffer);
  return hash.digest('hex');
}

/** 16 digits that name a value as JSON writes it: enough where nobody looks for two with the same. */
export const shortHash = (value: unknown): string => sha256(JSON.stringify(value)).slice(0, 16);
