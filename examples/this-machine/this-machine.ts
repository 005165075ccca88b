// Keeps the object of this machine up to date. See README.md beside this file.

import os from "node:os";
import type { paths } from "./api.js";

const base = (process.env.INVENTORY_URL ?? "http://127.0.0.1:8080").replace(/\/$/, "") + "/rest";
const token = process.env.INVENTORY_TOKEN;
const tries = 5;
const fieldsOfType = [
    { type: "text", name: "hostname", label: "Host name", required: true },
    { type: "text", name: "system", label: "Operating system" },
    { type: "number", name: "cores", label: "Cores" },
    { type: "text", name: "reporter", label: "Reported by" },
];

type Body<Path extends keyof paths, Method extends keyof paths[Path], Status extends number> =
    paths[Path][Method] extends { responses: { [status in Status]: { content: { "application/json": infer Content } } } }
        ? Content
        : never;

class Refused extends Error {
    constructor(readonly status: number, message: string) {
        super(message);
    }
}

async function ask<Content>(method: string, url: string, body?: object, more: HeadersInit = {}) {
    const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json", ...more };
    const answer = await fetch(url, { method, headers, body: body && JSON.stringify(body) });
    if (!answer.ok) {
        throw new Refused(answer.status, `${url}: ${await answer.text()}`);
    }
    return { content: (await answer.json()) as Content, headers: answer.headers };
}

/** The URL of a list. */
function address(path: string, parameters: Record<string, string>): string {
    return `${base}${path}?${new URLSearchParams(parameters)}`;
}

/** The id of the type, which is made if it is not there. */
async function typeOfMachines(): Promise<number> {
    const url = address("/types/", { filter: JSON.stringify({ name: "machine" }) });
    const found = await ask<Body<"/rest/types/", "get", 200>>("GET", url);
    const first = found.content.results[0];
    if (first) {
        return first.public_id;
    }
    const body = { name: "machine", label: "Machine", author_id: 1, fields: fieldsOfType };
    return (await ask<Body<"/rest/types/", "post", 201>>("POST", `${base}/types/`, body)).content.result_id;
}

type Objects = { total: number; results: { public_id: number; fields: { name: string; value: unknown }[] }[] };

/** Makes or changes the object with this host name. */
async function keep(type_id: number, fields: Record<string, unknown>): Promise<string> {
    const filter = JSON.stringify({ type_id, "f.hostname": fields.hostname });
    const found = (await ask<Objects>("GET", address("/objects/", { filter }))).content.results[0];
    if (!found) {
        const key = { "Idempotency-Key": crypto.randomUUID() };
        const body = { type_id, author_id: 1, fields };
        const made = await ask<Body<"/rest/objects/", "post", 200>>("POST", `${base}/objects/`, body, key);
        return `object ${made.content.result_id} made`;
    }
    const url = `${base}/objects/${found.public_id}`;
    for (let tried = 0; tried < tries; tried += 1) {
        const tag = (await ask("GET", `${url}/native`)).headers.get("ETag") ?? "*";
        try {
            await ask("PATCH", url, { fields }, { "If-Match": tag });
            return `object ${found.public_id} changed`;
        } catch (error) {
            // Somebody else has changed it meanwhile: read it again.
            if (!(error instanceof Refused && error.status === 412)) {
                throw error;
            }
        }
    }
    throw new Error(`object ${found.public_id} changes all the time`);
}

/** The fields of all machines, page by page. */
async function* machines(type_id: number) {
    const filter = JSON.stringify({ type_id });
    let url: string | undefined = address("/objects/", { filter, sort: "f.hostname", limit: "100", after: "" });
    while (url) {
        const page: { content: Objects; headers: Headers } = await ask<Objects>("GET", url);
        for (const found of page.content.results) {
            yield Object.fromEntries(found.fields.map((field) => [field.name, field.value]));
        }
        const next = /<([^>]*)>; rel="next"/.exec(page.headers.get("Link") ?? "")?.[1];
        url = next && new URL(next, url).href;
    }
}

if (!token) {
    console.error("set INVENTORY_TOKEN to a token of the service");
    process.exit(1);
}
const typeId = await typeOfMachines();
const fields = { hostname: os.hostname(), system: os.platform(), cores: os.cpus().length, reporter: "TypeScript" };
console.log(`${fields.hostname}: ${await keep(typeId, fields)}`);
const all: string[] = [];
for await (const machine of machines(typeId)) {
    all.push(`${machine.hostname} (${machine.system})`);
}
console.log(`${all.length} machines: ${all.join(", ")}`);
