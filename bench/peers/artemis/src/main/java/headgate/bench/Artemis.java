package headgate.bench;

import java.nio.file.Path;
import java.util.Set;
import org.apache.activemq.artemis.api.core.RoutingType;
import org.apache.activemq.artemis.core.config.Configuration;
import org.apache.activemq.artemis.core.config.impl.ConfigurationImpl;
import org.apache.activemq.artemis.core.config.impl.SecurityConfiguration;
import org.apache.activemq.artemis.core.security.Role;
import org.apache.activemq.artemis.core.server.embedded.EmbeddedActiveMQ;
import org.apache.activemq.artemis.core.settings.impl.AddressSettings;
import org.apache.activemq.artemis.spi.core.security.ActiveMQJAASSecurityManager;
import org.apache.activemq.artemis.spi.core.security.jaas.InVMLoginModule;

/**
 * An ActiveMQ Artemis in this process, with default settings beside those below. The arguments are a port, a folder, and
 * whether durable messages are kept on disk in it (true or false). Without that, only full addresses page to the folder.
 */
public final class Artemis {
    private Artemis() {
    }

    private static Configuration configuration(int port, Path folder, boolean persistence) throws Exception {
        Role everything =
            new Role("everything", true, true, true, true, true, true, true, true, true, true, true, true);
        return new ConfigurationImpl()
            .setJMXManagementEnabled(false)
            .setPersistenceEnabled(persistence)
            .setJournalDirectory(folder.resolve("journal").toString())
            .setBindingsDirectory(folder.resolve("bindings").toString())
            .setLargeMessagesDirectory(folder.resolve("large-messages").toString())
            .setPagingDirectory(folder.resolve("paging").toString())
            .addAcceptorConfiguration("amqp", "tcp://127.0.0.1:" + port + "?protocols=AMQP")
            .putSecurityRoles("#", Set.of(everything))
            // A queue that an attach makes is one queue for all, not one for each consumer.
            .addAddressSetting("#", new AddressSettings()
                .setAutoCreateQueues(true)
                .setAutoCreateAddresses(true)
                .setDefaultQueueRoutingType(RoutingType.ANYCAST)
                .setDefaultAddressRoutingType(RoutingType.ANYCAST));
    }

    public static void main(String[] arguments) throws Exception {
        SecurityConfiguration users = new SecurityConfiguration();
        users.addUser("guest", "guest");
        users.addRole("guest", "everything");
        EmbeddedActiveMQ server = new EmbeddedActiveMQ();
        server.setConfiguration(configuration(
            Integer.parseInt(arguments[0]), Path.of(arguments[1]), Boolean.parseBoolean(arguments[2])));
        server.setSecurityManager(new ActiveMQJAASSecurityManager(InVMLoginModule.class.getName(), users));
        server.start();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            try {
                server.stop();
            } catch (Exception problem) {
                problem.printStackTrace();
            }
        }));
        Thread.currentThread().join();
    }
}
