// An issuer of OpenID Connect: the npm package oidc-provider, with a person, a program, and two services that tokens are for.
// usage: node issuer.mjs PORT PEOPLE KEY...
// PEOPLE is a file with the groups of each person, read anew for each token. Keys are made as files when they are missing; the
// first one signs, all are shown.
import { generateKeyPairSync } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const tools = createRequire(`${process.env.OIDC_TOOLS}/package.json`);
const { default: Provider } = await import(pathToFileURL(tools.resolve('oidc-provider')));

const [port, people, ...names] = process.argv.slice(2);
const issuer = `http://127.0.0.1:${port}`;

function key(name) {
  const file = `${name}.jwk`;
  if (!existsSync(file)) {
    const { privateKey } = name.startsWith('ec')
      ? generateKeyPairSync('ec', { namedCurve: 'P-256' })
      : generateKeyPairSync('rsa', { modulusLength: 2048 });
    const alg = name.startsWith('ec') ? 'ES256' : 'RS256';
    writeFileSync(file, JSON.stringify({ ...privateKey.export({ format: 'jwk' }), kid: name, alg, use: 'sig' }));
  }
  return JSON.parse(readFileSync(file, 'utf8'));
}

const keys = names.map(key);
const groupsOf = (name) => JSON.parse(readFileSync(people, 'utf8'))[name] ?? [];

const provider = new Provider(issuer, {
  jwks: { keys },
  clients: [
    {
      client_id: 'nightly-report',
      client_secret: 'only-for-this-check',
      grant_types: ['client_credentials'],
      redirect_uris: [],
      response_types: [],
      id_token_signed_response_alg: keys[0].alg,
    },
    {
      client_id: 'inventory-app',
      client_secret: 'only-for-this-check',
      grant_types: ['authorization_code'],
      redirect_uris: ['http://127.0.0.1:1/callback'],
      response_types: ['code'],
      id_token_signed_response_alg: keys[0].alg,
    },
  ],
  clientDefaults: { id_token_signed_response_alg: keys[0].alg },
  findAccount: (ctx, id) => ({ accountId: id, claims: async () => ({ sub: id }) }),
  extraTokenClaims: (ctx, token) => {
    const name = token.accountId ?? token.clientId;
    return { groups: groupsOf(name), ...(token.accountId && { preferred_username: `${name}@example.org` }) };
  },
  features: {
    clientCredentials: { enabled: true },
    devInteractions: { enabled: true },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo: (ctx, resource) => ({
        scope: '',
        audience: resource === 'urn:example:inventory' ? 'inventory' : 'mail',
        accessTokenFormat: 'jwt',
        accessTokenTTL: 600,
        jwt: { sign: { alg: keys[0].alg } },
      }),
    },
  },
});

provider.listen(Number(port), '127.0.0.1', () => console.log('ready'));
