import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from 'vitest';

/** A folder that is there until the tests of the file, or of the `describe` around the call, have ended. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'lexpo-test-'));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
