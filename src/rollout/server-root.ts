/** The address of a server, without the trailing `/v1`: `http://a:8000/v1/` and `http://a:8000` are one server. */
export const serverRoot = (url: string): string => url.replace(/\/+$/, '').replace(/\/v1$/, '');
