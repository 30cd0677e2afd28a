'use strict';
// amqplib against Headgate. HEADGATE_URL says where the broker is.

const assert = require('node:assert/strict');
const { test } = require('node:test');
const amqplib = require('amqplib');

const url = process.env.HEADGATE_URL;
const MESSAGES = 10_000;

/** Run a test with a connection of its own; what the broker ends is an error unless the test expects it. */
async function connected(body, options) {
    const connection = await amqplib.connect(url, options);
    const failures = [];
    connection.on('error', (error) => failures.push(error));
    try {
        await body(connection);
        assert.deepEqual(failures, []);
    } finally {
        await connection.close();
    }
}

/** An exclusive queue that the broker names. */
const newQueue = async (channel, options = {}) => (await channel.assertQueue('', { exclusive: true, ...options })).queue;

/** Consume until there are n messages; each one is given to a function, which acknowledges it. */
function take(channel, queue, n, each = (message) => channel.ack(message), options = {}) {
    const taken = [];
    return new Promise((resolve, reject) => {
        channel.consume(queue, (message) => {
            if (message === null) return reject(new Error('the consumer was cancelled'));
            taken.push(message);
            each(message);
            if (taken.length === n) resolve(taken);
        }, options).catch(reject);
    });
}

/** The error that a channel ends with. */
const ended = (channel) => new Promise((resolve) => channel.once('error', resolve));

test('ten thousand confirmed messages, in order, with a prefetch-count', () => connected(async (connection) => {
    const [publishing, consuming] = [await connection.createConfirmChannel(), await connection.createChannel()];
    const queue = await newQueue(consuming, { durable: true });
    await consuming.prefetch(100);
    const consumed = take(consuming, queue, MESSAGES);
    for (let number = 0; number < MESSAGES; number++) {
        const room = publishing.sendToQueue(queue, Buffer.from(String(number)), { persistent: true });
        if (!room) await new Promise((resolve) => publishing.once('drain', resolve));
    }
    await publishing.waitForConfirms();
    const bodies = (await consumed).map((message) => Number(message.content));
    assert.deepEqual(bodies, Array.from({ length: MESSAGES }, (_, number) => number));
}));

test('properties, headers and bodies of many frames', () => connected(async (connection) => {
    const channel = await connection.createChannel();
    const queue = await newQueue(channel);
    const properties = {
        contentType: 'text/plain', contentEncoding: 'none', priority: 3, correlationId: 'c', replyTo: 'r',
        expiration: '60000', messageId: 'm', timestamp: 1_000_000_000, type: 't', userId: 'guest', appId: 'a',
        headers: { text: 'täxt', double: 0.1, yes: true, none: null, list: [1, 'two', [3]], table: { deep: { er: 1 } } },
    };
    const content = Buffer.alloc(100_000, 7);
    channel.sendToQueue(queue, content, properties);
    const [message] = await take(channel, queue, 1);
    for (const [name, value] of Object.entries(properties)) assert.deepEqual(message.properties[name], value, name);
    assert.ok(message.content.equals(content));
}, { frameMax: 8192 }));

test('a mandatory message comes back before it is confirmed', () => connected(async (connection) => {
    const channel = await connection.createConfirmChannel();
    const seen = [];
    channel.on('return', (message) => seen.push([message.fields.replyCode, message.content.toString()]));
    await new Promise((resolve, reject) => channel.sendToQueue('no-such-queue', Buffer.from('back'),
        { mandatory: true }, (error) => { seen.push('confirmed'); error ? reject(error) : resolve(); }));
    assert.deepEqual(seen, [[312, 'back'], 'confirmed']);
}));

test('a queue that is full refuses', () => connected(async (connection) => {
    const channel = await connection.createConfirmChannel();
    const queue = await newQueue(channel, { maxLength: 1, arguments: { 'x-overflow': 'reject-publish' } });
    const outcomes = await Promise.all(['fits', 'does not'].map((body) => new Promise((resolve) =>
        channel.sendToQueue(queue, Buffer.from(body), {}, (error) => resolve(error ? 'nack' : 'ack')))));
    assert.deepEqual(outcomes, ['ack', 'nack']);
}));

test('get, reject, and the dead letter', () => connected(async (connection) => {
    const channel = await connection.createChannel();
    const letters = await newQueue(channel);
    const queue = await newQueue(channel, { deadLetterExchange: '', deadLetterRoutingKey: letters });
    assert.equal(await channel.get(queue), false);
    channel.sendToQueue(queue, Buffer.from('bad'));
    channel.nack(await channel.get(queue), false, true);
    const again = await channel.get(queue);
    assert.equal(again.fields.redelivered, true);
    channel.reject(again, false);
    const [letter] = await take(channel, letters, 1);
    assert.equal(letter.properties.headers['x-death'][0].reason, 'rejected');
}));

test('exchanges of every type and bindings between them', () => connected(async (connection) => {
    const channel = await connection.createChannel();
    const queue = await newQueue(channel);
    const names = [];
    for (const type of ['direct', 'topic', 'fanout', 'headers']) {
        const { exchange } = await channel.assertExchange(`amqplib-${type}`, type, { autoDelete: true });
        names.push(exchange);
        await channel.bindQueue(queue, exchange, 'a.key', { 'x-match': 'all', kind: 'x' });
    }
    await channel.bindExchange('amqplib-fanout', 'amqplib-direct', 'through');
    for (const exchange of names) channel.publish(exchange, 'a.key', Buffer.from(exchange), { headers: { kind: 'x' } });
    channel.publish('amqplib-direct', 'through', Buffer.from('through'));
    const bodies = (await take(channel, queue, 5)).map((message) => message.content.toString());
    assert.deepEqual(bodies, [...names, 'through']);
}));

test('a question and its answer without a queue', () => connected(async (connection) => {
    const [asking, answering] = [await connection.createChannel(), await connection.createChannel()];
    const queue = await newQueue(answering);
    await answering.consume(queue, (message) => answering.sendToQueue(message.properties.replyTo,
        Buffer.from(`${message.content}!`), { correlationId: message.properties.correlationId }), { noAck: true });
    const answer = new Promise((resolve) => asking.consume('amq.rabbitmq.reply-to', resolve, { noAck: true }));
    asking.sendToQueue(queue, Buffer.from('hello'), { replyTo: 'amq.rabbitmq.reply-to', correlationId: '7' });
    const { content, properties } = await answer;
    assert.deepEqual([content.toString(), properties.correlationId], ['hello!', '7']);
}));

test('a consumer learns that its queue is gone', () => connected(async (connection) => {
    const channel = await connection.createChannel();
    const queue = await newQueue(channel);
    const cancelled = new Promise((resolve) => channel.consume(queue, resolve));
    await channel.checkQueue(queue);
    await channel.deleteQueue(queue);
    assert.equal(await cancelled, null);
}));

for (const [code, fault] of [
    [404, (channel) => channel.checkQueue('no-such-queue')],
    [404, (channel) => channel.publish('no-such-exchange', '', Buffer.from('x'))],
    [403, (channel) => channel.assertQueue('amq.mine')],
    [406, (channel) => channel.assertExchange('amq.direct', 'fanout')],
    [406, (channel) => channel.ack({ fields: { deliveryTag: 99 } })],
]) {
    test(`a fault that costs the channel: ${code} ${fault}`, () => connected(async (connection) => {
        const channel = await connection.createChannel();
        const error = ended(channel);
        await Promise.resolve(fault(channel)).catch(() => {});
        assert.equal((await error).code, code);
        await newQueue(await connection.createChannel()); // the connection goes on
    }));
}

test('a wrong password', async () => {
    const wrong = new URL(url);
    wrong.password = 'wrong';
    await assert.rejects(amqplib.connect(wrong.href), /ACCESS_REFUSED|403/);
});
