// A session with the client `ksqldb-client`; tells what it saw as JSON.
const KsqldbClient = require("ksqldb-client");

const EARLIEST = { properties: { "auto.offset.reset": "earliest" } };

const values = (rows) => rows.map((row) => Object.values(row));

// Three rows of a push query, and whether closing it ended it.
const pushed = async (client, sql) => {
    const rows = [];
    let closing;
    const ending = client.streamQuery(
        sql,
        (data) => {
            rows.push(...(data.rows || []));
            if (rows.length === 3 && !closing) closing = client.terminatePushQuery(data.metadata.queryId);
        },
        EARLIEST
    );
    const end = await ending;
    const closed = await closing;
    return [values(rows), closed.status === 200 && end.status === 200];
};

const limited = async (client, sql) => {
    const rows = [];
    await client.streamQuery(sql, (data) => rows.push(...(data.rows || [])), EARLIEST);
    return values(rows);
};

// The rows, once the table has both orders.
const pulled = async (client, sql) => {
    for (;;) {
        const { data } = await client.query(sql);
        const rows = values(data.rows);
        if (rows.length && rows[0][1] === 5) return rows;
    }
};

const main = async (url) => {
    const { hostname, port } = new URL(url);
    const client = new KsqldbClient({ host: `http://${hostname}`, port });
    await client.connect();
    await client.executeStatement(
        "CREATE STREAM orders (id INT KEY, qty INT)" +
            " WITH (kafka_topic='orders', value_format='json', partitions=1);"
    );
    const created = await client.executeStatement(
        "CREATE TABLE totals AS SELECT id, SUM(qty) AS total FROM orders GROUP BY id;"
    );
    const queryId = created.data.rows[0].commandStatus.queryId;
    const acknowledged = [];
    for (const [ID, QTY] of [[1, 2], [1, 3], [2, 7]]) {
        const answer = await client.insertInto("orders", { ID, QTY });
        acknowledged.push(answer.data.rows[0].status);
    }
    const [seen, ended] = await pushed(client, "SELECT id, qty FROM orders EMIT CHANGES;");
    const few = await limited(client, "SELECT id, qty FROM orders EMIT CHANGES LIMIT 2;");
    const found = await pulled(client, "SELECT id, total FROM totals WHERE id = 1;");
    const unknown = await client.terminatePushQuery("nothing");
    const refused = await client.executeStatement("SELEC 1;");
    const terminated = await client.executeStatement(`TERMINATE ${queryId};`);
    const streams = await client.listStreams();
    const described = await client.describeSource("totals");
    await client.disconnect();
    return {
        streams: streams.map((stream) => stream.name),
        acknowledged,
        pulled: found,
        pushed: seen,
        ended,
        limited: few,
        unknown: unknown.status === 200,
        refused: refused.error.error_code,
        properties: described.fields.length === 2,
        terminated: terminated.data.rows[0].commandStatus.status,
    };
};

main(process.argv[2]).then((seen) => console.log(JSON.stringify(seen)));
