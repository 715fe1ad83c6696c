#!/usr/bin/env node
import { existsSync } from 'node:fs';

// In a git checkout: install and compile what is missing. An installed package does not have the script.
const script = new URL('../scripts/ensure-ready.mjs', import.meta.url);
if (existsSync(script)) {
  try {
    const { ensureReady } = await import(script.href);
    ensureReady();
  } catch (error) {
    process.stderr.write(`lexpo: ${error.message}\n`);
    process.exit(1);
  }
}
const { reportError, runCli } = await import('../dist/cli/main.js');
const { endWithOutput } = await import('../dist/cli/interrupt.js');
// What is thrown outside of the command's own flow: never a silent end, never exit code 0.
process.on('uncaughtException', (error) => process.exit(reportError(error, process.stderr)));
endWithOutput(process.stdout, process.stderr);
const code = await runCli(process.argv.slice(2));
// What was written last may have failed, and is told of only now.
await new Promise((written) => process.stdout.write('', written));
process.exit(code);
