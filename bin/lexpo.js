#!/usr/bin/env node
import { existsSync } from 'node:fs';

// In a git checkout: install and compile what is missing. An installed package has neither script nor src.
const script = new URL('../scripts/ensure-ready.mjs', import.meta.url);
if (existsSync(script) && existsSync(new URL('../src', import.meta.url))) {
  try {
    const { ensureReady } = await import(script.href);
    ensureReady();
  } catch (error) {
    process.stderr.write(`lexpo: ${error.message}\n`);
    process.exit(1);
  }
}
await import('../dist/cli/main.js');
