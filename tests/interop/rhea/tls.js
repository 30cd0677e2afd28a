'use strict';
// rhea against Headgate with TLS. HEADGATE_URL says where the broker is, HEADGATE_CA, HEADGATE_CERTIFICATE and
// HEADGATE_KEY name files. Run by tests/interop/over_tls.py.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const { test } = require('node:test');
const rhea = require('rhea');

const url = new URL(process.env.HEADGATE_URL);
const file = (name) => fs.readFileSync(process.env[`HEADGATE_${name}`]);
const LARGE = 'x'.repeat(200000);
const authority = () => ({ ca: file('CA') });
const certificate = () => ({ cert: file('CERTIFICATE'), key: file('KEY'), enable_sasl_external: true });
const password = { username: url.username, password: url.password };

function connect(options) {
    return rhea.create_container().connect({
        transport: 'tls', host: url.hostname, port: url.port, servername: url.hostname, reconnect: false, ...options,
    });
}

/** The first of these events of a connection, or an error after ten seconds. */
function first(connection, names) {
    return new Promise((resolve, reject) => {
        const timer = setTimeout(() => reject(new Error(`none of ${names} within 10 s`)), 10000);
        for (const name of names) {
            connection.once(name, (context) => { clearTimeout(timer); resolve([name, context]); });
        }
    });
}

async function roundtrip(options) {
    const connection = connect(options);
    assert.equal((await first(connection, ['connection_open', 'disconnected']))[0], 'connection_open');
    const receiver = connection.open_receiver({ source: '/queues/tls-rhea', autoaccept: true });
    const sender = connection.open_sender('/queues/tls-rhea');
    await new Promise((resolve) => sender.once('sendable', resolve));
    for (const body of ['small', LARGE]) {
        const arrived = new Promise((resolve) => receiver.once('message', resolve));
        sender.send({ body });
        assert.equal((await arrived).message.body, body);
    }
    connection.close();
    await first(connection, ['connection_close']);
}

test('messages over TLS with a password', () => roundtrip({ ...authority(), ...password }));
test('messages over mutual TLS, as the user of the certificate', () => roundtrip({ ...authority(), ...certificate() }));
test('a broker whose authority is unknown is refused', async () => {
    const connection = connect(password);
    connection.on('error', () => {});
    const [, context] = await first(connection, ['disconnected', 'connection_error', 'connection_open']);
    assert.match(String(context.error), /self-signed|unable to verify|unable to get local issuer/);
});
