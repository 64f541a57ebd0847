import java.nio.file.Path;
import java.util.Map;
import org.opensearch.common.settings.Settings;
import org.opensearch.env.Environment;
import org.opensearch.node.InternalSettingsPreparer;
import org.opensearch.node.Node;

/** One node of OpenSearch. Its arguments are those of the release: -Ename=value. */
public final class OpenSearchNode {
    public static void main(String[] arguments) throws Exception {
        Settings.Builder settings = Settings.builder().put("path.home", System.getProperty("node.home"));
        for (String argument : arguments) {
            String[] parts = argument.replaceFirst("^-E", "").split("=", 2);
            settings.put(parts[0], parts[1]);
        }
        Path configuration = Path.of(settings.get("path.data"));
        Environment environment = InternalSettingsPreparer.prepareEnvironment(settings.build(), Map.of(), configuration, () -> "node1");
        Node node = new Node(environment);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            try {
                node.close();
            } catch (java.io.IOException error) {
                error.printStackTrace();
            }
        }));
        node.start();
        Thread.currentThread().join();
    }
}
