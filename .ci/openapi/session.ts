// Lists, filters, creates and changes with the types that openapi-typescript made of the description.
//
// usage: node session.js ORIGIN PASSWORD, compiled beside `api.d.ts`

import assert from "node:assert";
import createClient from "openapi-fetch";
import type { paths } from "./api.js";

const [origin, password] = process.argv.slice(2);

const stranger = createClient<paths>({ baseUrl: origin });
const wrong = await stranger.POST("/rest/auth/login", { body: { user_name: "admin", password: "wrong" } });
assert.equal(wrong.error?.code, "credentials_wrong");
const session = await stranger.POST("/rest/auth/login", { body: { user_name: "admin", password } });
const headers = { Authorization: `Bearer ${session.data?.token}` };
const client = createClient<paths>({ baseUrl: origin, headers });

const field = { type: "text", name: "city", label: "City" };
const kind = await client.POST("/rest/types/", { body: { name: "ts-site", author_id: 1, fields: [field] } });
const type_id = kind.data!.result_id;
for (const city of ["Oslo", "Bergen"]) {
    await client.POST("/rest/objects/", { body: { type_id, author_id: 1, fields: { city } } });
}

const query = { filter: JSON.stringify({ type_id, "f.city": "Oslo" }), sort: "-f.city" };
const list = await client.GET("/rest/objects/", { params: { query } });
assert.equal(list.data!.total, 1);
const [found] = list.data!.results;
assert("public_id" in found && typeof found.public_id === "number");
const queried = await client.POST("/rest/objects/query", { body: { filter: { type_id }, sort: { "f.city": 1 } } });
assert.equal(queried.data!.results.length, 2);
const types = await client.GET("/rest/types/", { params: { query: { limit: 0 } } });
assert(types.data!.results.map((type) => type.name).includes("ts-site"));

const path = { public_id: found.public_id };
const changed = await client.PATCH("/rest/objects/{public_id}", { params: { path }, body: { fields: { city: "Bodø" } } });
assert.equal(changed.response.status, 202);
console.log(`in TypeScript: made type ${type_id}, listed ${types.data!.total} types, found and changed ${found.public_id}`);
