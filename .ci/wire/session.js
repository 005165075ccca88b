// What somebody does in mongosh. `.ci/wire/check` runs it against the listener and against a MongoDB server.
const print1 = (name, value) => print(name + ": " + EJSON.stringify(value, { relaxed: false }));
const attempt = (name, work) => {
    try { print1(name, work()); } catch (error) { print1(name, { code: error.code ?? error.errorResponse?.code ?? String(error) }); }
};
const objects = db.getCollection("framework.objects");
const types = db.getCollection("framework.types");
const seen = ["framework.categories", "framework.objects", "framework.types", "management.groups", "management.users", "management.users.settings"];

attempt("databases", () => db.adminCommand({ listDatabases: 1 }).databases.map(one => one.name).filter(name => name === db.getName()));
attempt("collections", () => db.getCollectionNames().filter(name => seen.includes(name)).sort());
attempt("indexes", () => objects.getIndexes().sort((one, other) => (one.name < other.name ? -1 : 1)));
attempt("types", () => types.find({}, { name: 1 }).sort({ public_id: 1 }).toArray());
attempt("find", () => objects.find({ type_id: 7, active: true }, { public_id: 1, "fields.value": 1 }).sort({ public_id: -1 }).skip(3).limit(5).toArray());
attempt("findOne", () => objects.findOne({ public_id: 17 }));
attempt("elemMatch", () => objects.find({ fields: { $elemMatch: { name: "city", value: "Berlin" } } }, { fields: { $slice: 1 } }).sort({ _id: 1 }).toArray());
attempt("expression", () => objects.countDocuments({ $expr: { $gt: [{ $size: "$fields" }, 9] } }));
attempt("countDocuments", () => objects.countDocuments({ type_id: { $in: [1, 2, 3] } }));
attempt("estimatedDocumentCount", () => objects.estimatedDocumentCount());
attempt("distinct", () => objects.distinct("type_id"));
attempt("distinct with a query", () => objects.distinct("fields.name", { type_id: 1 }).sort());
attempt("group", () => objects.aggregate([{ $group: { _id: "$type_id", objects: { $sum: 1 } } }, { $sort: { _id: 1 } }]).toArray());
attempt("lookup", () => types.aggregate([
    { $sort: { public_id: 1 } },
    { $lookup: { from: "framework.objects", localField: "public_id", foreignField: "type_id", as: "found" } },
    { $project: { name: 1, found: { $size: "$found" } } },
]).toArray());
attempt("unwind", () => objects.aggregate([{ $match: { public_id: { $lt: 4 } } }, { $unwind: "$fields" }, { $sortByCount: "$fields.name" }, { $sort: { count: -1, _id: 1 } }]).toArray());
attempt("facet", () => objects.aggregate([{ $facet: { one: [{ $match: { type_id: 1 } }, { $count: "n" }], two: [{ $match: { type_id: 2 } }, { $count: "n" }] } }]).toArray());
attempt("explain", () => {
    const stats = objects.find({ public_id: 17 }).explain("executionStats");
    const plan = stats.queryPlanner.winningPlan;
    return [plan.stage, plan.inputStage.stage, plan.inputStage.indexName, stats.executionStats.nReturned];
});
attempt("a long cursor", () => {
    let count = 0, sum = 0;
    objects.find().batchSize(500).forEach(one => { count += 1; sum += Number(one.public_id); });
    return [count, sum];
});
attempt("a cursor of 100,000 documents", () => {
    let count = 0, sum = 0;
    objects.aggregate([{ $limit: 1 }, { $set: { n: { $range: [0, 100000] } } }, { $unwind: "$n" }, { $project: { _id: 0, n: 1 } }], { cursor: { batchSize: 1000 } })
        .forEach(one => { count += 1; sum += Number(one.n); });
    return [count, sum];
});
attempt("statistics", () => objects.aggregate([{ $collStats: { storageStats: {} } }, { $project: { _id: 0, count: { $toLong: "$storageStats.count" }, indexes: "$storageStats.nindexes" } }]).toArray());
attempt("index statistics", () => objects.aggregate([{ $indexStats: {} }, { $sort: { name: 1 } }, { $project: { _id: 0, name: 1, key: 1 } }]).toArray());
attempt("an unknown operator", () => objects.find({ a: { $foo: 1 } }).toArray());
attempt("a wrong type", () => objects.find({ $expr: { $divide: [1, "$version"] } }).toArray());
attempt("an unknown stage", () => objects.aggregate([{ $foo: 1 }]).toArray());
attempt("an unknown command", () => db.runCommand({ noSuchCommand: 1 }));
attempt("an unknown collection", () => db.getCollection("no.such").find().toArray());
