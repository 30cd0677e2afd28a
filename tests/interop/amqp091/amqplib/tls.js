'use strict';
// amqplib against Headgate with TLS. HEADGATE_URL says where the broker is, HEADGATE_CA, HEADGATE_CERTIFICATE and
// HEADGATE_KEY name files. Run by tests/interop/over_tls.py.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const { test } = require('node:test');
const amqplib = require('amqplib');

const url = process.env.HEADGATE_URL;
const file = (name) => fs.readFileSync(process.env[`HEADGATE_${name}`]);
const LARGE = Buffer.alloc(200000, 'x');

async function roundtrip(target, options) {
    const connection = await amqplib.connect(target, options);
    const channel = await connection.createConfirmChannel();
    const { queue } = await channel.assertQueue('', { exclusive: true });
    for (const body of [Buffer.from('small'), LARGE]) {
        channel.sendToQueue(queue, body);
        await channel.waitForConfirms();
        assert.deepEqual((await channel.get(queue, { noAck: true })).content, body);
    }
    await connection.close();
}

test('messages over TLS with a password', () => roundtrip(url, { ca: [file('CA')] }));

test('messages over mutual TLS, as the user of the certificate', () => roundtrip(url.replace(/\/\/.*@/, '//'), {
    ca: [file('CA')], cert: file('CERTIFICATE'), key: file('KEY'), credentials: amqplib.credentials.external(),
}));

test('a broker whose authority is unknown is refused', () => assert.rejects(
    amqplib.connect(url), /self-signed|unable to verify|unable to get local issuer/));
