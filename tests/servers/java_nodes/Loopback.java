import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Executors;
import java.util.function.BiConsumer;
import java.util.function.Predicate;
import java.util.function.Supplier;
import org.apache.lucene.util.BytesRef;
import org.elasticsearch.Build;
import org.elasticsearch.action.ActionListener;
import org.elasticsearch.client.internal.node.NodeClient;
import org.elasticsearch.cluster.metadata.IndexNameExpressionResolver;
import org.elasticsearch.cluster.node.DiscoveryNode;
import org.elasticsearch.cluster.node.DiscoveryNodes;
import org.elasticsearch.common.bytes.BytesArray;
import org.elasticsearch.common.bytes.BytesReference;
import org.elasticsearch.common.component.AbstractLifecycleComponent;
import org.elasticsearch.common.io.stream.NamedWriteableRegistry;
import org.elasticsearch.common.network.NetworkService;
import org.elasticsearch.common.settings.ClusterSettings;
import org.elasticsearch.common.settings.IndexScopedSettings;
import org.elasticsearch.common.settings.Settings;
import org.elasticsearch.common.settings.SettingsFilter;
import org.elasticsearch.common.transport.BoundTransportAddress;
import org.elasticsearch.common.transport.TransportAddress;
import org.elasticsearch.common.util.BigArrays;
import org.elasticsearch.common.util.PageCacheRecycler;
import org.elasticsearch.common.util.concurrent.ThreadContext;
import org.elasticsearch.features.NodeFeature;
import org.elasticsearch.http.HttpBody;
import org.elasticsearch.http.HttpChannel;
import org.elasticsearch.http.HttpInfo;
import org.elasticsearch.http.HttpPreRequest;
import org.elasticsearch.http.HttpRequest;
import org.elasticsearch.http.HttpResponse;
import org.elasticsearch.http.HttpServerTransport;
import org.elasticsearch.http.HttpStats;
import org.elasticsearch.indices.breaker.CircuitBreakerService;
import org.elasticsearch.plugins.ActionPlugin;
import org.elasticsearch.plugins.NetworkPlugin;
import org.elasticsearch.plugins.Plugin;
import org.elasticsearch.rest.AbstractRestChannel;
import org.elasticsearch.rest.ChunkedRestResponseBodyPart;
import org.elasticsearch.rest.RestChannel;
import org.elasticsearch.rest.RestController;
import org.elasticsearch.rest.RestHandler;
import org.elasticsearch.rest.RestRequest;
import org.elasticsearch.rest.RestResponse;
import org.elasticsearch.rest.RestStatus;
import org.elasticsearch.telemetry.TelemetryProvider;
import org.elasticsearch.threadpool.ThreadPool;
import org.elasticsearch.transport.BytesRefRecycler;
import org.elasticsearch.transport.ConnectionProfile;
import org.elasticsearch.transport.Transport;
import org.elasticsearch.transport.TransportMessageListener;
import org.elasticsearch.transport.TransportStats;
import org.elasticsearch.xcontent.NamedXContentRegistry;
import org.elasticsearch.xcontent.XContentBuilder;
import org.elasticsearch.xcontent.XContentParserConfiguration;

/** Elasticsearch's server without its network modules: HTTP on loopback by the JDK's own server, and no other node. */
public final class Loopback extends Plugin implements ActionPlugin, NetworkPlugin {
    @Override
    public Map<String, Supplier<Transport>> getTransports(Settings settings, ThreadPool pool, PageCacheRecycler pages, CircuitBreakerService breakers, NamedWriteableRegistry registry, NetworkService network) {
        return Map.of("alone", Alone::new);
    }

    @Override
    public Map<String, Supplier<HttpServerTransport>> getHttpTransports(Settings settings, ThreadPool pool, BigArrays arrays, PageCacheRecycler pages, CircuitBreakerService breakers, NamedXContentRegistry contents, NetworkService network, HttpServerTransport.Dispatcher dispatcher, BiConsumer<HttpPreRequest, ThreadContext> context, ClusterSettings cluster, TelemetryProvider telemetry) {
        int port = Integer.parseInt(settings.get("http.port"));
        XContentParserConfiguration parsers = XContentParserConfiguration.EMPTY.withRegistry(contents);
        return Map.of("loopback", () -> new Http(port, pool, parsers, dispatcher));
    }

    @Override
    public Collection<RestHandler> getRestHandlers(
        Settings settings, NamedWriteableRegistry registry, RestController controller, ClusterSettings cluster, IndexScopedSettings indices,
        SettingsFilter filter, IndexNameExpressionResolver names, Supplier<DiscoveryNodes> nodes, Predicate<NodeFeature> features
    ) {
        return List.of(new Root());
    }

    /** What a release answers at its root, by a module that is not there either. */
    static final class Root implements RestHandler {
        @Override
        public List<Route> routes() {
            return List.of(new Route(RestRequest.Method.GET, "/"), new Route(RestRequest.Method.HEAD, "/"));
        }

        @Override
        public void handleRequest(RestRequest request, RestChannel channel, NodeClient client) throws IOException {
            XContentBuilder answer = channel.newBuilder().startObject().field("name", "node1").field("cluster_name", "tests");
            answer.startObject("version").field("number", Build.current().version()).field("build_flavor", "default");
            answer.endObject().field("tagline", "You Know, for Search").endObject();
            channel.sendResponse(new RestResponse(RestStatus.OK, answer));
        }
    }

    static BoundTransportAddress bound(int port) {
        TransportAddress address = new TransportAddress(InetAddress.getLoopbackAddress(), port);
        return new BoundTransportAddress(new TransportAddress[] {address}, address);
    }

    static final class Http extends AbstractLifecycleComponent implements HttpServerTransport {
        private final int port;
        private final ThreadPool pool;
        private final XContentParserConfiguration parsers;
        private final HttpServerTransport.Dispatcher dispatcher;
        private HttpServer server;

        Http(int port, ThreadPool pool, XContentParserConfiguration parsers, HttpServerTransport.Dispatcher dispatcher) {
            this.port = port;
            this.pool = pool;
            this.parsers = parsers;
            this.dispatcher = dispatcher;
        }

        @Override public BoundTransportAddress boundAddress() { return bound(port); }
        @Override public HttpInfo info() { return new HttpInfo(bound(port), 1 << 27); }
        @Override public HttpStats stats() { return new HttpStats(0, 0); }

        @Override
        protected void doStart() {
            try {
                server = HttpServer.create(new InetSocketAddress("127.0.0.1", port), 0);
            } catch (IOException error) {
                throw new IllegalStateException(error);
            }
            server.setExecutor(Executors.newCachedThreadPool());
            server.createContext("/", this::handle);
            server.start();
        }

        @Override protected void doStop() { server.stop(0); }
        @Override protected void doClose() {}

        private void handle(HttpExchange exchange) throws IOException {
            byte[] body = exchange.getRequestBody().readAllBytes();
            ThreadContext context = pool.getThreadContext();
            try (ThreadContext.StoredContext stored = context.stashContext()) {
                Request request = new Request(exchange, body);
                Channel channel = new Channel(exchange);
                RestRequest rest;
                try {
                    rest = RestRequest.request(parsers, request, channel);
                } catch (Exception error) {
                    RestRequest plain = RestRequest.requestWithoutParameters(parsers, request.withoutTypes(), channel);
                    dispatcher.dispatchBadRequest(new Answers(plain, exchange, context), context, error);
                    return;
                }
                dispatcher.dispatchRequest(rest, new Answers(rest, exchange, context), context);
            }
        }
    }

    static final class Answers extends AbstractRestChannel {
        private final HttpExchange exchange;
        private final ThreadContext context;

        Answers(RestRequest request, HttpExchange exchange, ThreadContext context) {
            super(request, true);
            this.exchange = exchange;
            this.context = context;
        }

        @Override
        public void sendResponse(RestResponse response) {
            try (response; exchange) {
                byte[] body = response.isChunked() ? joined(response.chunkedContent()) : BytesReference.toBytes(response.content());
                String kind = response.isChunked() ? response.chunkedContent().getResponseContentTypeString() : response.contentType();
                exchange.getResponseHeaders().set("X-elastic-product", "Elasticsearch");
                context.getResponseHeaders().forEach((name, values) -> exchange.getResponseHeaders().put(name, values));
                response.getHeaders().forEach((name, values) -> exchange.getResponseHeaders().put(name, values));
                exchange.getResponseHeaders().set("content-type", kind);
                boolean head = request.method() == RestRequest.Method.HEAD;
                exchange.sendResponseHeaders(response.status().getStatus(), head || body.length == 0 ? -1 : body.length);
                if (!head && body.length > 0) {
                    try (OutputStream out = exchange.getResponseBody()) { out.write(body); }
                }
            } catch (IOException error) {
                error.printStackTrace();
            } finally {
                releaseOutputBuffer();
            }
        }

        private static byte[] joined(ChunkedRestResponseBodyPart part) throws IOException {
            java.io.ByteArrayOutputStream all = new java.io.ByteArrayOutputStream();
            while (!part.isPartComplete()) {
                try (var chunk = part.encodeChunk(1 << 16, BytesRefRecycler.NON_RECYCLING_INSTANCE)) {
                    all.write(BytesReference.toBytes(chunk));
                }
            }
            if (!part.isLastPart()) throw new IOException("an answer of several parts");
            return all.toByteArray();
        }
    }

    static final class Channel implements HttpChannel {
        private final HttpExchange exchange;
        Channel(HttpExchange exchange) { this.exchange = exchange; }
        @Override public void sendResponse(HttpResponse response, ActionListener<Void> listener) { throw new UnsupportedOperationException(); }
        @Override public InetSocketAddress getLocalAddress() { return exchange.getLocalAddress(); }
        @Override public InetSocketAddress getRemoteAddress() { return exchange.getRemoteAddress(); }
        @Override public void close() { exchange.close(); }
        @Override public void addCloseListener(ActionListener<Void> listener) {}
        @Override public boolean isOpen() { return true; }
    }

    static final class Request implements HttpRequest {
        private final HttpExchange exchange;
        private final Map<String, List<String>> headers = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
        private HttpBody body;

        Request(HttpExchange exchange, byte[] body) {
            this.exchange = exchange;
            exchange.getRequestHeaders().forEach(headers::put);
            this.body = body.length == 0 ? HttpBody.empty() : HttpBody.fromBytesReference(new BytesArray(body));
        }

        Request withoutTypes() { headers.remove("Content-type"); headers.remove("Accept"); return this; }
        @Override public RestRequest.Method method() { return RestRequest.Method.valueOf(exchange.getRequestMethod()); }
        @Override public String uri() { return exchange.getRequestURI().toString(); }
        @Override public Map<String, List<String>> getHeaders() { return headers; }
        @Override public HttpBody body() { return body; }
        @Override public void setBody(HttpBody given) { body = given; }
        @Override public List<String> strictCookies() { return List.of(); }
        @Override public HttpVersion protocolVersion() { return HttpVersion.HTTP_1_1; }
        @Override public HttpRequest removeHeader(String name) { headers.remove(name); return this; }
        @Override public boolean hasContent() { return !body.isEmpty(); }
        @Override public HttpResponse createResponse(RestStatus status, BytesReference content) { throw new UnsupportedOperationException(); }
        @Override public HttpResponse createResponse(RestStatus status, ChunkedRestResponseBodyPart first) { throw new UnsupportedOperationException(); }
        @Override public Exception getInboundException() { return null; }
        @Override public void release() {}
    }

    static final class Alone extends AbstractLifecycleComponent implements Transport {
        private final ResponseHandlers responses = new ResponseHandlers();
        private final RequestHandlers requests = new RequestHandlers();
        @Override public void setMessageListener(TransportMessageListener listener) {}
        @Override public BoundTransportAddress boundAddress() { return bound(9300); }
        @Override public BoundTransportAddress boundRemoteIngressAddress() { return null; }
        @Override public Map<String, BoundTransportAddress> profileBoundAddresses() { return Map.of(); }
        @Override public TransportAddress[] addressesFromString(String address) { return new TransportAddress[0]; }
        @Override public List<String> getDefaultSeedAddresses() { return List.of(); }
        @Override public void openConnection(DiscoveryNode node, ConnectionProfile profile, ActionListener<Connection> listener) { listener.onFailure(new IllegalStateException("there is no other node")); }
        @Override public TransportStats getStats() { return new TransportStats(0, 0, 0, 0, 0, 0, new long[0], new long[0], Map.of()); }
        @Override public ResponseHandlers getResponseHandlers() { return responses; }
        @Override public RequestHandlers getRequestHandlers() { return requests; }
        @Override protected void doStart() {}
        @Override protected void doStop() {}
        @Override protected void doClose() {}
    }
}
