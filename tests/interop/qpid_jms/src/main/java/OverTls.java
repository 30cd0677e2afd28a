import java.io.ByteArrayInputStream;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.PrivateKey;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Base64;
import javax.jms.Connection;
import javax.jms.JMSException;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.TextMessage;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;
import org.apache.qpid.jms.JmsConnectionFactory;

/**
 * Qpid JMS against Headgate with TLS. HEADGATE_URL says where the broker is and has a user; HEADGATE_CA,
 * HEADGATE_CERTIFICATE and HEADGATE_KEY name PEM files. The file hosts must be given as jdk.net.hosts.file. Ends with 1 at the first thing that is not as it should be.
 */
public class OverTls {
    private static final char[] NO_PASSWORD = new char[0];
    private static final String LARGE = "x".repeat(200_000);
    private static final long PATIENCE_MS = 10_000;

    public static void main(String[] arguments) throws Exception {
        URI url = new URI(System.getenv("HEADGATE_URL"));
        String[] login = url.getUserInfo().split(":");
        String place = "amqps://localhost:" + url.getPort();
        exchange(factory(place + "?amqp.saslMechanisms=PLAIN", context(true, false)), login);
        System.out.println("ok: messages over TLS with a password");
        exchange(factory(place + "?amqp.saslMechanisms=EXTERNAL", context(true, true)), null);
        System.out.println("ok: messages over mutual TLS, as the user of the certificate");
        refused(factory(place, context(false, false)), login, "unable to find valid certification path");
        System.out.println("ok: a broker whose authority is unknown is refused");
        refused(factory("amqps://other.example:" + url.getPort(), context(true, false)), login, "other.example");
        System.out.println("ok: a broker whose certificate has another name is refused");
    }

    private static JmsConnectionFactory factory(String url, SSLContext context) {
        JmsConnectionFactory factory = new JmsConnectionFactory(url);
        factory.setSslContext(context);
        return factory;
    }

    /** Trusts the authority or nobody, and shows the client's certificate or none. */
    private static SSLContext context(boolean trusting, boolean certified) throws Exception {
        KeyStore trusted = KeyStore.getInstance("PKCS12");
        trusted.load(null, null);
        if (trusting) {
            trusted.setCertificateEntry("ca", certificate("HEADGATE_CA"));
        }
        TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(trusting ? trusted : null);  // null: the authorities of the Java installation
        KeyStore own = KeyStore.getInstance("PKCS12");
        own.load(null, null);
        if (certified) {
            own.setKeyEntry("own", key(), NO_PASSWORD, new Certificate[] {certificate("HEADGATE_CERTIFICATE")});
        }
        KeyManagerFactory keys = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        keys.init(own, NO_PASSWORD);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(keys.getKeyManagers(), trust.getTrustManagers(), null);
        return context;
    }

    private static byte[] file(String variable) throws Exception {
        return Files.readAllBytes(Path.of(System.getenv(variable)));
    }

    private static Certificate certificate(String variable) throws Exception {
        return CertificateFactory.getInstance("X.509").generateCertificate(new ByteArrayInputStream(file(variable)));
    }

    private static PrivateKey key() throws Exception {
        String text = new String(file("HEADGATE_KEY")).replaceAll("-----[A-Z ]+-----", "").replaceAll("\\s", "");
        return KeyFactory.getInstance("EC").generatePrivate(new PKCS8EncodedKeySpec(Base64.getDecoder().decode(text)));
    }

    private static Connection connect(JmsConnectionFactory factory, String[] login) throws JMSException {
        return login == null ? factory.createConnection() : factory.createConnection(login[0], login[1]);
    }

    private static void exchange(JmsConnectionFactory factory, String[] login) throws Exception {
        Connection connection = connect(factory, login);
        try {
            connection.start();
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            Queue queue = session.createQueue("/queues/tls-jms");
            MessageProducer producer = session.createProducer(queue);
            MessageConsumer consumer = session.createConsumer(queue);
            for (String body : new String[] {"small", LARGE}) {
                producer.send(session.createTextMessage(body));
                TextMessage got = (TextMessage) consumer.receive(PATIENCE_MS);
                check(got != null && body.equals(got.getText()), "the message did not come back");
            }
        } finally {
            connection.close();
        }
    }

    private static void refused(JmsConnectionFactory factory, String[] login, String why) throws Exception {
        StringBuilder told = new StringBuilder();
        try (Connection connection = connect(factory, login)) {
            connection.start();
            check(false, "the connection was made");
        } catch (JMSException error) {
            for (Throwable cause = error; cause != null; cause = cause.getCause()) {
                told.append(cause.getMessage()).append('\n');
            }
        }
        check(told.toString().contains(why), "the reason is not \"" + why + "\" but " + told);
    }

    private static void check(boolean right, String what) {
        if (!right) {
            System.err.println("wrong: " + what);
            System.exit(1);
        }
    }
}
