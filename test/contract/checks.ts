/** Every check of the contract, in the order in which they run. */
import { adapterChecks } from './adapter-checks.ts';
import { completionChecks } from './completion-checks.ts';
import type { Check } from './contract.ts';
import { serverChecks } from './server-checks.ts';

export const contractChecks: readonly Check[] = [...serverChecks, ...completionChecks, ...adapterChecks];
