import com.google.gson.Gson;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.ForwardingClientCall.SimpleForwardingClientCall;
import io.grpc.ForwardingClientCallListener.SimpleForwardingClientCallListener;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** What each call was answered, as it came over the wire. Calls are made one after another. */
final class Recorder implements ClientInterceptor {
  String name = "connect";
  private final List<Call> calls = new ArrayList<>();

  /** One call: the scenario's name for it, and everything the client was given. */
  static final class Call {
    String name;
    String path;
    int code;
    String details = "";
    String reply = "";
    Map<String, List<String>> initial = Map.of();
    Map<String, List<String>> trailing = Map.of();
  }

  String asJson() {
    return new Gson().toJson(calls);
  }

  @Override
  public <A, B> ClientCall<A, B> interceptCall(MethodDescriptor<A, B> method, CallOptions options, Channel next) {
    Call made = new Call();
    made.name = name;
    made.path = "/" + method.getFullMethodName();
    calls.add(made);
    MethodDescriptor<A, B> kept =
        method.toBuilder(method.getRequestMarshaller(), keeping(method.getResponseMarshaller(), made)).build();
    return new SimpleForwardingClientCall<A, B>(next.newCall(kept, options)) {
      @Override
      public void start(Listener<B> listener, Metadata headers) {
        super.start(listening(listener, made), headers);
      }
    };
  }

  private static <B> ClientCall.Listener<B> listening(ClientCall.Listener<B> listener, Call made) {
    return new SimpleForwardingClientCallListener<B>(listener) {
      @Override
      public void onHeaders(Metadata headers) {
        made.initial = values(headers);
        super.onHeaders(headers);
      }

      @Override
      public void onClose(Status status, Metadata trailers) {
        made.code = status.getCode().value();
        made.details = status.getDescription() == null ? "" : status.getDescription();
        made.trailing = values(trailers);
        super.onClose(status, trailers);
      }
    };
  }

  /** Reads as `reader` does, and keeps the bytes. */
  private static <B> MethodDescriptor.Marshaller<B> keeping(MethodDescriptor.Marshaller<B> reader, Call made) {
    return new MethodDescriptor.Marshaller<B>() {
      @Override
      public InputStream stream(B value) {
        return reader.stream(value);
      }

      @Override
      public B parse(InputStream stream) {
        try {
          byte[] data = stream.readAllBytes();
          made.reply = Base64.getEncoder().encodeToString(data);
          return reader.parse(new ByteArrayInputStream(data));
        } catch (IOException error) {
          throw new UncheckedIOException(error);
        }
      }
    };
  }

  private static Map<String, List<String>> values(Metadata metadata) {
    Map<String, List<String>> found = new TreeMap<>();
    for (String key : metadata.keys()) {
      if (!key.endsWith(Metadata.BINARY_HEADER_SUFFIX)) {
        List<String> told = new ArrayList<>();
        metadata.getAll(Metadata.Key.of(key, Metadata.ASCII_STRING_MARSHALLER)).forEach(told::add);
        found.put(key, told);
      }
    }
    return found;
  }
}
