/** Prompts seen a moment ago, with their keys, values and next-token distribution: least recent out first. */
import type { KvRow } from './kv-cache.ts';
import type { AdapterUid } from './protocol.ts';

export interface CachedPrompt {
  adapter: AdapterUid;
  row: KvRow;
  /** log_softmax(logits / T) after the prompt `[vocab]`. */
  logprobs: Float32Array;
}

export interface PromptCache {
  get(key: string): CachedPrompt | undefined;
  /** Keeps the prompt unless it alone exceeds the budget; older ones make room. */
  put(key: string, prompt: CachedPrompt): void;
  dropAdapter(adapter: AdapterUid): void;
  bytes(): number;
}

/**
 * Everything that the cached values depend on. `salt` separates callers who ask for it; the temperature
 * is part of the distribution.
 */
export function promptKey(adapter: AdapterUid, salt: string, temperature: number, ids: number[]): string {
  return `${adapter}|${temperature}|${ids.join(',')}|${salt}`;
}

function sizeOf(prompt: CachedPrompt): number {
  const floats = prompt.row.planes.reduce((sum, plane) => sum + plane.length, prompt.logprobs.length);
  return floats * Float32Array.BYTES_PER_ELEMENT;
}

export function createPromptCache(budgetBytes: number): PromptCache {
  // A Map iterates in insertion order; a hit is inserted anew, so the first entry is the least recent.
  const entries = new Map<string, CachedPrompt>();
  let bytes = 0;

  function drop(key: string, prompt: CachedPrompt): void {
    entries.delete(key);
    bytes -= sizeOf(prompt);
  }

  return {
    get(key) {
      const found = entries.get(key);
      if (!found) return undefined;
      entries.delete(key);
      entries.set(key, found);
      return found;
    },
    put(key, prompt) {
      const old = entries.get(key);
      if (old) drop(key, old);
      const size = sizeOf(prompt);
      if (size > budgetBytes) return;
      for (const [oldest, value] of entries) {
        if (bytes + size <= budgetBytes) break;
        drop(oldest, value);
      }
      entries.set(key, prompt);
      bytes += size;
    },
    dropAdapter(adapter) {
      for (const [key, prompt] of entries) if (prompt.adapter === adapter) drop(key, prompt);
    },
    bytes: () => bytes,
  };
}
