/** TensorFlow.js on its plain JavaScript backend: slow, installed everywhere, the same calls. */
import '@tensorflow/tfjs-backend-cpu';
import * as core from '@tensorflow/tfjs-core';
import type { Tfjs } from './backend.ts';

// no advice to install tfjs-node
core.env().set('IS_TEST', true);

/** For what the interpreter does not use, such as counting tensors. */
export const tfjsCore = core;
/** The calls alone, to be spread and replaced one by one. */
export const tfjsCpu = { ...core, default: undefined } as unknown as Tfjs;
