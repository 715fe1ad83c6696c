/** An answer that is an error, in the shape of the protocol: `{"error": {message, type, param, code}}`. */

export type ApiErrorType =
  | 'BadRequestError'
  | 'InvalidUserInput'
  | 'NotFoundError'
  | 'AuthenticationError'
  | 'PermissionDenied'
  | 'MethodNotAllowed'
  | 'RequestTooLarge'
  | 'TooManyRequests'
  | 'InternalServerError'
  | 'ServiceUnavailable';

export class ApiError extends Error {
  override name = 'ApiError';
  constructor(
    readonly status: number,
    readonly type: ApiErrorType,
    message: string,
    readonly param: string | null = null,
  ) {
    super(message);
  }
}

export function badRequest(message: string, param: string | null = null): ApiError {
  return new ApiError(400, 'BadRequestError', message, param);
}

/** `code` repeats the status, as vLLM does. */
export function errorBody({ message, type, param, status }: ApiError): object {
  return { error: { message, type, param, code: status } };
}
