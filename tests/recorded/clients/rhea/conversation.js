'use strict';
// The script of rhea. HEADGATE_URL says where the broker is. Run by tests/recorded/clients/rhea.py.

const rhea = require('rhea');

const url = new URL(process.env.HEADGATE_URL);
let queue; // a dynamic node: rhea knows one link by a name, and requests to the management node need two
const manual = { credit_window: 0, autoaccept: false, autosettle: true };

/** The next event of a name. */
function event(emitter, name, seconds = 20) {
    return new Promise((resolve, reject) => {
        const timer = setTimeout(() => reject(new Error(`no ${name} within ${seconds} s`)), seconds * 1000);
        emitter.once(name, (context) => { clearTimeout(timer); resolve(context); });
    });
}

/** Run a part of the script on a connection of its own. */
async function connected(options, body) {
    const container = rhea.create_container({ id: 'recorded-rhea' });
    const connection = container.connect(Object.assign({
        host: url.hostname, port: url.port, username: url.username, password: url.password, reconnect: false,
        container_id: 'recorded-rhea',
    }, options));
    for (const name of ['session_error', 'sender_error', 'receiver_error']) connection.on(name, () => {});
    await event(connection, 'connection_open');
    await body(connection);
    const closed = event(connection, 'connection_close');
    connection.close();
    await closed;
}

/** Send messages one after the other, each when the one before has its outcome. */
async function publish(sender, messages) {
    if (!sender.sendable()) await event(sender, 'sendable');
    for (const message of messages) {
        const settled = event(sender, 'settled');
        sender.send(message);
        await settled;
    }
}

/** Give link credit, and wait for as many messages. */
function take(receiver, n, each = ({ delivery }) => delivery.accept()) {
    return new Promise((resolve) => {
        let taken = 0;
        const listener = (context) => {
            each(context);
            if (++taken === n) { receiver.removeListener('message', listener); resolve(); }
        };
        receiver.on('message', listener);
        receiver.add_credit(n);
    });
}

async function closed(link, kind) {
    const done = event(link, `${kind}_close`);
    link.close();
    await done;
}

async function publishing(connection) {
    const sender = connection.open_sender({ target: queue, name: 'publishing' });
    await publish(sender, ['', 'short', 'x'.repeat(300), 'ä'.repeat(20000)].map((body) => ({ body, durable: true })));
    await publish(sender, [{
        message_id: 'id', user_id: Buffer.from('guest'), to: 'to', subject: 's', reply_to: 'r', correlation_id: 7,
        content_type: 'text/plain', group_id: 'g', priority: 9, ttl: 3600000, durable: true,
        application_properties: { text: 'täxt', number: 5, real: 0.5, yes: true, none: null },
        message_annotations: { 'x-opt-any': 'thing' }, body: [1, 'two', { three: 3 }],
    }]);
    await closed(sender, 'sender');
    const settled = connection.open_sender({ target: queue, name: 'settled', snd_settle_mode: 1 });
    await event(settled, 'sendable');
    for (let n = 0; n < 3; n++) settled.send({ body: n });
    await closed(settled, 'sender');
    const anonymous = connection.open_sender({ target: {}, name: 'anonymous terminus' });
    await publish(anonymous, [{ to: queue, body: 1 }, { to: '/queues/nowhere', body: 2 }, { body: 3 }]);
    await closed(anonymous, 'sender');
    const unrouted = connection.open_sender({ target: '/exchanges/amq.direct/recorded-nothing', name: 'unrouted' });
    await publish(unrouted, [{ body: 'unrouted' }]);
    await closed(unrouted, 'sender');
}

async function consuming(connection) {
    const receiver = connection.open_receiver({ source: queue, name: 'consuming', ...manual });
    await event(receiver, 'receiver_open');
    await take(receiver, 2);
    const outcomes = [
        (delivery) => delivery.reject({ condition: 'amqp:not-allowed', description: 'no' }),
        (delivery) => delivery.release(),
        (delivery) => delivery.modified({ delivery_failed: true, undeliverable_here: false }),
    ];
    await take(receiver, 3, ({ delivery }) => outcomes.shift()(delivery));
    receiver.on('message', ({ delivery }) => delivery.accept());
    for (let round = 0; round < 2; round++) {
        const drained = event(receiver, 'receiver_drained');
        receiver.add_credit(20);
        receiver.drain_credit();
        await drained;
        receiver.drain = false;
    }
    await closed(receiver, 'receiver');
}

async function linksAndSessions(connection) {
    const answers = connection.open_receiver({ source: { dynamic: true }, name: 'dynamic', ...manual });
    await event(answers, 'receiver_open');
    const sender = connection.open_sender({ target: answers.source.address, name: 'to the dynamic node' });
    await publish(sender, [{ body: 'answer', correlation_id: 7 }]);
    await take(answers, 1);
    await closed(sender, 'sender');
    await closed(answers, 'receiver');
    const session = connection.create_session();
    session.begin();
    const more = session.open_sender({ target: queue, name: 'of another session' });
    await publish(more, [{ body: 1 }, { body: 2 }]);
    const first = session.open_receiver({ source: queue, name: 'unsettled', ...manual, autosettle: false });
    await event(first, 'receiver_open');
    await take(first, 2, () => {});
    const ended = event(session, 'session_close');
    session.close();
    await ended;
    const again = connection.open_receiver({ source: queue, name: 'again', snd_settle_mode: 1, ...manual });
    await event(again, 'receiver_open');
    await take(again, 2, () => {});
    await closed(again, 'receiver');
}

async function refused(connection) {
    for (const address of ['/queues/nowhere', 'nonsense', '/exchanges/nowhere/key']) {
        const sender = connection.open_sender({ target: address, name: `refused sender ${address}` });
        await event(sender, 'sender_close');
        const receiver = connection.open_receiver({ source: address, name: `refused receiver ${address}` });
        await event(receiver, 'receiver_close');
    }
    for (const [name, source] of [
        ['browsing', { address: queue, distribution_mode: 'copy' }],
        ['durable', { address: queue, durable: 2, expiry_policy: 'never' }],
        ['filtered', { address: queue, filter: { 'jms-selector': rhea.types.wrap_described("a = 'b'", 0x468C00000004) } }],
    ]) {
        const receiver = connection.open_receiver({ source, name, credit_window: 0 });
        await Promise.race([event(receiver, 'receiver_open'), event(receiver, 'receiver_close')]);
        await new Promise((resolve) => setTimeout(resolve, 1000)); // a refusal comes right after the attach
        if (receiver.is_open()) await closed(receiver, 'receiver');
    }
}

/** A dynamic node, which is there as long as the link. */
async function declare(connection) {
    const keeper = connection.open_receiver({ source: { dynamic: true }, name: 'keeps the queue', ...manual });
    await event(keeper, 'receiver_open');
    queue = keeper.source.address;
    return keeper;
}

async function main() {
    await connected({}, async (connection) => {
        const keeper = await declare(connection);
        await publishing(connection);
        await consuming(connection);
        await linksAndSessions(connection);
        await refused(connection);
        await closed(keeper, 'receiver');
    });
    await connected({ max_frame_size: 512 }, async (connection) => {
        await declare(connection);
        const sender = connection.open_sender({ target: queue, name: 'small frames in' });
        await publish(sender, [{ body: 'b'.repeat(20000) }]);
        const receiver = connection.open_receiver({ source: queue, name: 'small frames out', ...manual });
        await event(receiver, 'receiver_open');
        await take(receiver, 1);
    });
}

main().catch((error) => { console.error(error); process.exit(1); });
