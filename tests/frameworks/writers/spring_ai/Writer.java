import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.qdrant.client.QdrantClient;
import io.qdrant.client.QdrantGrpcClient;
import java.io.File;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.springframework.ai.document.Document;
import org.springframework.ai.embedding.BatchingStrategy;
import org.springframework.ai.embedding.EmbeddingModel;
import org.springframework.ai.embedding.EmbeddingOptions;
import org.springframework.ai.embedding.EmbeddingRequest;
import org.springframework.ai.embedding.EmbeddingResponse;
import org.springframework.ai.vectorstore.qdrant.QdrantVectorStore;

/** Spring AI: documents added to its vector store over gRPC. {@code Writer qdrant HOST:PORT plan.json} */
public final class Writer {
  /** The vectors of the plan by a document's id. */
  private record Planned(Map<String, float[]> vectors, int dimensions) implements EmbeddingModel {
    @Override
    public EmbeddingResponse call(EmbeddingRequest request) {
      throw new UnsupportedOperationException();
    }

    @Override
    public float[] embed(Document document) {
      return vectors.get(document.getId());
    }

    @Override
    public List<float[]> embed(List<Document> documents, EmbeddingOptions options, BatchingStrategy batching) {
      return documents.stream().map(this::embed).toList();
    }
  }

  public static void main(String[] arguments) throws Exception {
    String[] address = arguments[1].split(":");
    JsonNode plan = new ObjectMapper().readTree(new File(arguments[2]));
    int dimension = plan.get("passages").get(0).get("vector").size();
    Map<String, float[]> vectors = new HashMap<>();
    List<Document> documents = new ArrayList<>();
    for (JsonNode passage : plan.get("passages")) {
      float[] vector = new float[dimension];
      for (int place = 0; place < dimension; place++) {
        vector[place] = (float) passage.get("vector").get(place).asDouble();
      }
      String identifier = passage.get("identifier").asText();
      vectors.put(identifier, vector);
      Map<String, Object> metadata =
          Map.of(
              "title", passage.get("title").asText(),
              "file_name", passage.get("file").asText(),
              "page_number", passage.get("page").asInt(),
              "date", passage.get("date").asText());
      documents.add(new Document(identifier, passage.get("text").asText(), metadata));
    }
    QdrantClient client =
        new QdrantClient(QdrantGrpcClient.newBuilder(address[0], Integer.parseInt(address[1]), false).build());
    QdrantVectorStore store =
        QdrantVectorStore.builder(client, new Planned(vectors, dimension))
            .collectionName(plan.get("collection").asText())
            .initializeSchema(true)
            .build();
    store.afterPropertiesSet();
    store.add(documents);
    client.close();
  }
}
