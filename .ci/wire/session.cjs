// What a program does with the driver for Node.js. `.ci/wire/check` runs it against the listener and against a MongoDB server.
// usage: node session.cjs URI
const { createHash } = require("node:crypto");
const { createRequire } = require("node:module");
const { MongoClient, BSON } = createRequire(process.env.INVENTORY_TOOLS + "/")("mongodb");

const show = (name, value) => console.log(name + ": " + BSON.EJSON.stringify(value, { relaxed: false }));

(async () => {
    const client = await new MongoClient(process.argv[2], { compressors: ["zlib"], monitorCommands: true }).connect();
    let more = 0;
    client.on("commandStarted", event => { more += event.commandName === "getMore" ? 1 : 0; });
    const objects = client.db().collection("framework.objects");
    const refused = async (name, work) => { try { show(name, await work()); } catch (error) { show(name, { code: error.code }); } };
    show("count", await objects.countDocuments({ type_id: { $gt: 3 } }));
    show("estimate", await objects.estimatedDocumentCount());
    show("distinct", await objects.distinct("type_id"));
    show("distinct values", await objects.distinct("fields.value", { type_id: 1 }));
    show("page", await objects.find({ active: true }, { projection: { fields: 0 } }).sort({ type_id: -1, public_id: 1 }).skip(40).limit(9).toArray());
    show("all", (await objects.find({}, { batchSize: 333 }).toArray()).length);
    show("group", await objects.aggregate([{ $group: { _id: "$author_id", types: { $addToSet: "$type_id" } } }, { $unwind: "$types" }, { $sort: { types: 1 } }]).toArray());
    const small = [{ $sort: { public_id: -1 } }, { $set: { n: { $range: [0, 50] } } }, { $unwind: "$n" }, { $project: { _id: 0, public_id: 1, n: 1 } }];
    const checksum = createHash("sha256");
    let count = 0;
    more = 0;
    for await (const one of objects.aggregate(small, { batchSize: 999, raw: true })) { count += 1; checksum.update(one); }
    show("a cursor of 100,000 documents", [count, checksum.digest("hex"), more]);
    show("indexes", (await objects.indexes()).map(index => index.name).sort());
    await refused("a wrong filter", () => objects.find({ a: { $in: 1 } }).toArray());
    await client.close();
})().catch(error => { console.error(error); process.exit(1); });
