'use strict';
// The script of amqplib. HEADGATE_URL says where the broker is. Run by tests/recorded/clients/amqplib.py.

const amqplib = require('amqplib');

const QUEUE = 'recorded-amqplib';

/** Consume until there are n messages; each one is given to a function, which acknowledges it. */
function take(channel, queue, n, options, each = (message) => channel.ack(message)) {
    return new Promise((resolve, reject) => {
        let taken = 0;
        channel.consume(queue, (message) => {
            if (taken === n) return;
            each(message);
            if (++taken === n) resolve();
        }, options).catch(reject);
    });
}

const confirmed = (channel, exchange, key, content, options) =>
    new Promise((resolve) => channel.publish(exchange, key, content, options, resolve));

async function topology(channel) {
    await channel.assertQueue(QUEUE, { durable: true });
    await channel.checkQueue(QUEUE);
    for (const type of ['direct', 'topic', 'fanout', 'headers']) {
        await channel.assertExchange(`${QUEUE}-${type}`, type, { autoDelete: true });
        await channel.bindQueue(QUEUE, `${QUEUE}-${type}`, 'a.key', { 'x-match': 'all', kind: 'x' });
    }
    await channel.bindExchange(`${QUEUE}-fanout`, `${QUEUE}-direct`, 'through');
    await channel.checkExchange(`${QUEUE}-fanout`);
    await channel.unbindExchange(`${QUEUE}-fanout`, `${QUEUE}-direct`, 'through');
}

async function publishing(channel) {
    for (const size of [0, 1, 5000, 60000]) await confirmed(channel, '', QUEUE, Buffer.alloc(size, 7), { persistent: true });
    for (const type of ['direct', 'topic', 'fanout', 'headers'])
        await confirmed(channel, `${QUEUE}-${type}`, 'a.key', Buffer.from(type), { headers: { kind: 'x' } });
    await confirmed(channel, '', QUEUE, Buffer.from('properties'), {
        contentType: 'text/plain', contentEncoding: 'none', priority: 3, correlationId: 'c', replyTo: 'r',
        expiration: '600000', messageId: 'm', timestamp: 1_000_000_000, type: 't', userId: 'guest', appId: 'a',
        headers: { text: 'täxt', double: 0.1, yes: true, none: null, list: [1, 'two', [3]], table: { deep: { er: 1 } } },
    });
    await confirmed(channel, '', 'no-such-queue', Buffer.from('back'), { mandatory: true });
    const { queue } = await channel.assertQueue('', { exclusive: true, maxLength: 1, arguments: { 'x-overflow': 'reject-publish' } });
    for (const body of ['fits', 'does not']) await confirmed(channel, '', queue, Buffer.from(body));
    await channel.deleteQueue(queue);
}

async function consuming(channel) {
    await channel.prefetch(2);
    await take(channel, QUEUE, 3, { consumerTag: 'one' });
    await channel.cancel('one');
    channel.nackAll(true);
    for (const settle of [(m) => channel.nack(m), (m) => channel.reject(m, false), (m) => channel.ack(m)])
        settle(await channel.get(QUEUE));
    await channel.recover();
    await channel.get(QUEUE, { noAck: true });
    await take(channel, QUEUE, 2, { consumerTag: 'two', noAck: true }, () => {});
    await channel.cancel('two');
    await channel.purgeQueue(QUEUE);
    await channel.get(QUEUE);
}

async function deadLetters(channel) {
    const letters = (await channel.assertQueue('', { exclusive: true })).queue;
    const options = { exclusive: true, deadLetterExchange: '', deadLetterRoutingKey: letters };
    const { queue } = await channel.assertQueue('', options);
    await confirmed(channel, '', queue, Buffer.from('bad'), {});
    channel.reject(await channel.get(queue), false);
    await channel.checkQueue(queue);
    channel.ack(await channel.get(letters));
}

async function question(connection) {
    const channel = await connection.createChannel();
    const answer = new Promise((resolve) => channel.consume('amq.rabbitmq.reply-to', resolve, { noAck: true }));
    channel.sendToQueue(QUEUE, Buffer.from('hello'), { replyTo: 'amq.rabbitmq.reply-to', correlationId: '7' });
    await channel.checkQueue(QUEUE);
    const message = await channel.get(QUEUE, { noAck: true });
    channel.sendToQueue(message.properties.replyTo, Buffer.from('answer'), { correlationId: '7' });
    await answer;
    await channel.close();
}

async function cancelled(connection) {
    const channel = await connection.createChannel();
    const { queue } = await channel.assertQueue('', { exclusive: true });
    const gone = new Promise((resolve) => channel.consume(queue, resolve));
    await channel.checkQueue(queue);
    await channel.deleteQueue(queue);
    await gone;
    await channel.close();
}

async function faults(connection) {
    for (const fault of [
        (channel) => channel.checkQueue('no-such-queue'),
        (channel) => channel.publish('no-such-exchange', '', Buffer.from('x')),
        (channel) => channel.assertQueue('amq.mine'),
        (channel) => channel.assertExchange('amq.direct', 'fanout'),
        (channel) => channel.assertQueue(QUEUE, { durable: false }),
        (channel) => channel.ack({ fields: { deliveryTag: 99 } }),
    ]) {
        const channel = await connection.createChannel();
        const ended = new Promise((resolve) => channel.once('error', resolve));
        await Promise.resolve(fault(channel)).catch(() => {});
        await ended;
    }
}

async function main() {
    const connection = await amqplib.connect(process.env.HEADGATE_URL, { frameMax: 8192 });
    connection.on('error', () => {});
    const channel = await connection.createConfirmChannel();
    channel.on('return', () => {});
    await topology(channel);
    await publishing(channel);
    await consuming(channel);
    await deadLetters(channel);
    await question(connection);
    await cancelled(connection);
    await faults(connection);
    await channel.deleteQueue(QUEUE);
    await channel.close();
    await connection.close();
}

main().catch((error) => { console.error(error); process.exit(1); });
