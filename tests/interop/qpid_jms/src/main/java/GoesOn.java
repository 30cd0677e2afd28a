import java.util.HashSet;
import java.util.Set;
import javax.jms.Connection;
import javax.jms.JMSException;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.TextMessage;
import org.apache.qpid.jms.JmsConnection;
import org.apache.qpid.jms.JmsConnectionFactory;

/**
 * Qpid JMS at a node of a cluster that ends. HEADGATE_URL is a failover: URL with one node. Says "half" when half of the
 * messages are accepted, and goes on when a line comes. Ends with 1 at the first thing that is not as it should be.
 */
public class GoesOn {
    private static final int HALF = 50;
    private static final long PATIENCE_MS = 20_000;

    public static void main(String[] arguments) throws Exception {
        JmsConnectionFactory factory = new JmsConnectionFactory("guest", "guest", System.getenv("HEADGATE_URL"));
        Connection connection = factory.createConnection();
        connection.start();
        Session sending = connection.createSession(Session.AUTO_ACKNOWLEDGE);
        Session receiving = connection.createSession(Session.AUTO_ACKNOWLEDGE);
        Queue queue = sending.createQueue("/queues/orders");
        MessageProducer producer = sending.createProducer(queue);
        MessageConsumer consumer = receiving.createConsumer(queue);
        Set<String> received = new HashSet<>();
        for (int number = 0; number < 2 * HALF; number++) {
            if (number == HALF) {
                System.out.println("half");
                System.in.read();
            }
            send(producer, sending.createTextMessage(String.valueOf(number)));
        }
        while (received.size() < 2 * HALF) {
            TextMessage message = (TextMessage) consumer.receive(PATIENCE_MS);
            if (message == null) {
                throw new IllegalStateException("lost: " + (2 * HALF - received.size()) + " messages");
            }
            received.add(message.getText());
        }
        System.out.println("ok: all messages have come, at " + ((JmsConnection) connection).getConnectedURI());
        connection.close();
    }

    private static void send(MessageProducer producer, TextMessage message) throws Exception {
        for (int left = 10; ; left--) {
            try {
                producer.send(message);
                return;
            } catch (JMSException error) {
                System.out.println("again: " + error);
                if (left == 0) {
                    throw error;
                }
                Thread.sleep(100);
            }
        }
    }
}
