import java.nio.file.Path;
import java.util.Map;
import org.elasticsearch.common.logging.LogConfigurator;
import org.elasticsearch.common.settings.Settings;
import org.elasticsearch.env.Environment;
import org.elasticsearch.node.InternalSettingsPreparer;
import org.elasticsearch.node.Node;
import org.elasticsearch.plugins.PluginsLoader;

/** One node of Elasticsearch, with Loopback for its network. Its arguments are those of the release: -Ename=value. */
public final class ElasticsearchNode {
    public static void main(String[] arguments) throws Exception {
        LogConfigurator.configureESLogging();
        Settings.Builder settings = Settings.builder().put("path.home", System.getProperty("node.home"));
        settings.put("http.type", "loopback").put("transport.type", "alone");
        for (String argument : arguments) {
            String[] parts = argument.replaceFirst("^-E", "").split("=", 2);
            settings.put(parts[0], parts[1]);
        }
        Path configuration = Path.of(settings.get("path.data"));
        Environment environment = InternalSettingsPreparer.prepareEnvironment(settings.build(), Map.of(), configuration, () -> "node1");
        var modules = PluginsLoader.loadModulesBundles(environment.modulesDir());
        var plugins = PluginsLoader.loadPluginsBundles(environment.pluginsDir());
        Node node = new Node(environment, PluginsLoader.createPluginsLoader(modules, plugins, Map.of(), false));
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            try {
                node.prepareForClose();
                node.close();
            } catch (java.io.IOException error) {
                error.printStackTrace();
            }
        }));
        node.start();
        Thread.currentThread().join();
    }
}
